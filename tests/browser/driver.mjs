// A browser for tests: it takes commands as lines of JSON, does them in headless Chromium over its debugging pipe, and
// answers each with a line. Clicks and keys are those of the browser itself, so what is hidden or covered is not reached.
//
//   node driver.mjs CHROMIUM AXE

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const [chromium, axe] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), 'tidegate-browser-'));
const browser = spawn(chromium, [
  '--headless', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
  '--disable-background-networking', '--disable-component-update', '--no-first-run', `--user-data-dir=${profile}`,
], { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'] });
let said = '';
browser.stderr.on('data', (bytes) => { said = (said + bytes).slice(-4000); });
browser.on('exit', (code) => {
  rmSync(profile, { recursive: true, force: true });
  if (!ending) {
    console.error(`the browser ended (${code}): ${said}`);
    process.exit(1);
  }
  process.exit(0);
});
let ending = false;

let number = 0;
const asked = new Map();
const problems = { exceptions: [], console: [], policy: [], dialogs: [], elsewhere: [] };
let origin = '';

function send(method, params = {}, session = undefined) {
  number += 1;
  const id = number;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: session })}\0`);
  return new Promise((done, fail) => asked.set(id, { done, fail, method }));
}

let rest = '';
browser.stdio[4].setEncoding('utf8');
browser.stdio[4].on('data', (text) => {
  rest += text;
  for (let end; (end = rest.indexOf('\0')) >= 0;) {
    const message = JSON.parse(rest.slice(0, end));
    rest = rest.slice(end + 1);
    const waits = asked.get(message.id);
    if (waits) {
      asked.delete(message.id);
      if (message.error) waits.fail(new Error(`${waits.method}: ${message.error.message}`));
      else waits.done(message.result);
    } else if (message.method) happened(message.method, message.params);
  }
});

function happened(method, params) {
  if (method === 'Runtime.exceptionThrown') {
    problems.exceptions.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
  } else if (method === 'Runtime.consoleAPICalled' && params.type === 'error') {
    problems.console.push(params.args.map((one) => one.value ?? one.description).join(' '));
  } else if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source === 'security') {
    problems.policy.push(params.entry.text);
  } else if (method === 'Page.javascriptDialogOpening') {
    problems.dialogs.push(params.message);
    send('Page.handleJavaScriptDialog', { accept: false }, session);
  } else if (method === 'Network.requestWillBeSent' && !params.request.url.startsWith(origin)
      && !params.request.url.startsWith('data:')) {
    problems.elsewhere.push(params.request.url);
  }
}

const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
const { sessionId: session } = await send('Target.attachToTarget', { targetId, flatten: true });
for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await send(`${domain}.enable`, {}, session);
await send('Page.addScriptToEvaluateOnNewDocument', { source:
  `window.violations = []; addEventListener('securitypolicyviolation', (event) => {
     window.violations.push(event.violatedDirective + ' ' + event.blockedURI);
   });` }, session);

async function evaluate(code) {
  const { result, exceptionDetails } = await send('Runtime.evaluate', {
    expression: code, awaitPromise: true, returnByValue: true,
  }, session);
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
  return result.value ?? null;
}

const KEYS = {
  Tab: [9, ''], Enter: [13, '\r'], Escape: [27, ''], Space: [32, ' '], ArrowDown: [40, ''], ArrowUp: [38, ''],
};

async function press(key) {
  const [code, text] = KEYS[key] || [key.toUpperCase().charCodeAt(0), key];
  const event = { key: key === 'Space' ? ' ' : key, code: key, windowsVirtualKeyCode: code };
  await send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...event }, session);
  await send('Input.dispatchKeyEvent', { type: 'keyUp', ...event }, session);
}

/** The middle of the first element of a selector that has this text, in view and not covered. */
async function place(selector, text) {
  return evaluate(`(() => {
    const found = [...document.querySelectorAll(${JSON.stringify(selector)})]
      .find((one) => one.textContent.includes(${JSON.stringify(text || '')}) && one.getClientRects().length);
    if (!found) return null;
    found.scrollIntoView({ block: 'center', inline: 'center' });
    const box = found.getBoundingClientRect();
    const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const there = document.elementFromPoint(at.x, at.y);
    at.isCovered = !(there && (found.contains(there) || there.contains(found)));
    return at;
  })()`);
}

const commands = {
  open: async ({ url }) => {
    origin = new URL(url).origin;
    await send('Page.navigate', { url }, session);
  },
  reload: () => send('Page.reload', {}, session),
  eval: ({ code }) => evaluate(code),
  click: async ({ selector, text }) => {
    const at = await place(selector, text);
    if (!at) return false;
    if (at.isCovered) throw new Error(`${selector} is covered`);
    for (const type of ['mouseMoved', 'mousePressed', 'mouseReleased']) {
      await send('Input.dispatchMouseEvent', { type, x: at.x, y: at.y, button: 'left', clickCount: 1 }, session);
    }
    return true;
  },
  press: async ({ keys }) => {
    for (const key of keys) await press(key);
  },
  type: ({ text }) => send('Input.insertText', { text }, session),
  size: ({ width, height }) => send('Emulation.setDeviceMetricsOverride',
    { width, height, deviceScaleFactor: 1, mobile: false }, session),
  media: ({ features }) => send('Emulation.setEmulatedMedia', { features }, session),
  shot: async ({ path }) => {
    const { data } = await send('Page.captureScreenshot', { captureBeyondViewport: true,
      clip: { ...(await evaluate('({ x: 0, y: 0, width: innerWidth, height: Math.min(6000, document.documentElement.scrollHeight) })')), scale: 1 } }, session);
    writeFileSync(path, Buffer.from(data, 'base64'));
  },
  axe: async () => {
    await evaluate(`${readFileSync(axe, 'utf8')}; 0`);
    return evaluate(`axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.map((one) => ({
      id: one.id, impact: one.impact, nodes: one.nodes.slice(0, 5).map((node) => node.html + ' | ' + (node.any[0]?.message || node.failureSummary)) })))`);
  },
  problems: async () => ({ ...problems, violations: await evaluate('window.violations || []') }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    const value = await commands[command.do](command);
    answer = { value: value ?? null };
  } catch (error) {
    answer = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
ending = true;
await send('Browser.close').catch(() => {});
