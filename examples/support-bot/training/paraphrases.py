"""More customer sentences for training, by intent, in the notation of `templates.py`.

The first sentences of an intent are plain; these say the same in other words, so that the model meets
the vocabulary of each intent in many surroundings. None is a held-out sentence.
"""

from __future__ import annotations

PARAPHRASES: dict[str, str] = {
    "late_delivery": """
        (Shipping|Delivery|Transport) of {item} takes (forever|ages|much too long), I was told {days}.
        (Still|Yet) no (parcel|package|delivery|post) from you, I (paid|ordered) {days} ago.
        Why is {item} (so late|delayed|not delivered|overdue)?
        Nothing was (left|put) at my (door|house|porch) although you say that {item} was (dropped off|delivered).
        I have been (waiting|looking out) for {ord} for {days}.
        When (can|should|do) I expect {item}? It was (promised|announced) for {days} ago.
        My (package|parcel) never (reached|came to|made it to) me.
        (Please trace|Please find|Can you locate) {ord}, the (tracking number|tracking link|tracking) shows nothing new.
        {item} (did not show up|never came|didn't arrive) (today|this week|on the promised day).
    """,
    "refund_request": """
        I expect (a full refund|my money back|to be paid back) for {item}.
        (Give|Pay|Send) me back my money for {ord}, (please|I am done with it|it is no good).
        I would rather have (the money|a refund) than {item}.
        Can {item} be (returned|sent back|brought back) within 30 days?
        (Please tell me|I want to know) how to (return|send back) {item} (for a refund|and be refunded).
        I (am returning|will return|have to return) {ord}, what are the steps to get (refunded|the money back|my {amount} back)?
        {item} is (useless to me|not my taste|not what the picture shows), take it back please.
        I ask for a refund of {amount} for {item}.
        Is a (return|refund) possible for {item}? (I never used it|It is unopened|I don't like it).
    """,
    "refund_status": """
        You (got|have|received) {item} back {days} ago, (so where is my money|and I wait for the refund|but I saw no refund).
        My (bank|card) shows no (refund|money back|credit) for {ord} (yet|after {days}).
        I was told the refund of {amount} would (come|be there|be paid) (in five days|{days} ago).
        (What happened to|How far is|What is the state of) the refund for {item}?
        The (money|amount|refund) for the returned item (never came|did not arrive|was not paid).
        The return was (accepted|scanned|confirmed), but (no refund|nothing came back|where is the money)?
        Did you (process|send|start|forget) my refund for {ord}?
        (Still waiting|Waiting since {days}) for the refund you (promised|owe me).
    """,
    "damaged": """
        {item} was (already broken|damaged|in bad shape|crushed) when it (arrived|came|was delivered).
        (On arrival|When I opened the box) {item} had a (crack|hole|dent|broken {part}).
        There are (cracks|scratches|dents|pieces missing) all over {item}, the (packaging|carton|box) was (bad|thin|crushed) too.
        The courier (dropped|threw|crushed) the (box|parcel|package), now {item} is (broken|cracked|dented).
        I received a (broken|damaged|smashed) {part} with {item}.
        It was (badly packed|not wrapped well) and (broke|got damaged|cracked) on the way.
        {item} reached me (in two parts|with a broken {part}|bent|with dents), I need (a new one|another one|a replacement).
        My delivery is damaged, (the {part} has a crack|the glass is shattered|everything is in pieces).
    """,
    "defective": """
        {item} (is dead|has died|quit|has failed) after only {days}.
        I (press|push) the (power button|switch) and nothing happens with {item}.
        The {part} (stopped|fails|stops) after a few minutes, {item} is (not usable|no use).
        {item} (shuts down|turns off|stops) (again and again|all the time|after a minute).
        I cannot (get|make) {item} (work|working|to start|to run) (any longer|at all|).
        There is a (fault|defect|problem) with the {part} of {item}, it (flickers|does not move|is stuck).
        {item} (has no power|shows an error|shows a black screen|is stuck), I tried (everything|to restart it).
        Since {days} {item} (does not respond|is not working right|makes noise|has a malfunction).
        It was fine for {days} but now {item} (stopped|quits|fails|malfunctions).
    """,
    "wrong_item": """
        {item} was ordered, (something different|another product|the wrong thing) was (delivered|shipped|in the box).
        (The delivery|My parcel) contains (goods|things|an article) that I (did not order|never ordered).
        I got (another customer's|someone else's|a stranger's) (parcel|order|package).
        In the box was (a lamp|a book|a pair of socks|some cable), not {item}.
        I (picked|chose|selected|paid for) {item} and (an incorrect|a different|the wrong) one (arrived|came).
        You (packed|shipped|delivered) the wrong (article|product|model) for {ord}.
        What you sent is (not right|incorrect|wrong), I (chose|ordered|bought) {item}.
        There was a mix-up, I (received|have) (a different article|the incorrect item) under {ord}.
    """,
    "missing_part": """
        I (can't find|cannot find|do not see) the {part} (that belongs to|of|for) {item} (in the box|anywhere|).
        The (box|carton|package) of {item} had no {part} (inside|in it).
        You (left out|forgot|did not pack) the {part} (of|for) {item}.
        Please (send|post|mail) me the {part}, it (was not|wasn't) (inside|with {item}|in the carton).
        (Half|Some|Two) of the (items|pieces|parts) of {ord} (are|were) missing.
        I am missing (the {part}|a {part}|some screws|a piece) for {item}.
        (Not everything|Not all) was in the parcel of {ord}.
        {item} is (missing a piece|not complete|incomplete), there should be a {part}.
    """,
    "cancel_order": """
        (Do not send|Don't ship|Please don't send) {item}, I (want to cancel|cancel|have changed my plans).
        I (clicked|pressed) the (wrong|order) button (by mistake|too early), (cancel|please cancel) {ord}.
        (Withdraw|Delete|Undo|Cancel) my (order|purchase) of {item} (please|before it goes out|today).
        I (placed|made) {ord} (today|this morning|an hour ago) and (would like to cancel|want it cancelled|wish to cancel it).
        {ord} (should|must|has to) be cancelled (right away|please|today).
        There is no need for {item} any longer, (can you cancel|cancel please|so cancel it).
        (Is it too late|Am I too late) to cancel (my purchase|{ord}|{item})?
        I want to (call off|take back|withdraw) my order (before it is sent|now|).
    """,
    "change_address": """
        Send {item} to my (new home|new flat|office|parents) in {city}, not to the (old one|address I gave).
        {ord} (goes|is going|will go) to my old (address|flat|house), (please change that|I live in {city} now).
        There is a (typo|mistake|error) in my (street|address|postcode|shipping details).
        We (moved|move|relocate) (to {city}|next week), (update|change|correct) the address please.
        Could you (redirect|forward|reroute) {item} to {city}?
        I (no longer|don't) live (there|at that place|at this address), where do I (enter|give) the new one?
        I want {item} delivered (somewhere else|to a different place|to my work).
        The (shipping|delivery) details of {ord} (need|have) a (correction|wrong street|new house number).
    """,
    "invoice": """
        I (deleted|lost|misplaced) the (receipt|invoice|bill) for {item}, (can you mail it again|send it once more please).
        My (tax office|boss|bookkeeper|company) (wants|asks for|requires) (an invoice|a receipt|the bill|proof of purchase).
        (Do you have|Is there) a (PDF|document|copy) of the (invoice|bill|receipt) for {ord}?
        (Proof of purchase|A receipt|A bill) for {item} (is needed|please|would help).
        For my (taxes|tax return|expenses) I need (an invoice|a receipt|the bill) (for|of) {item}.
        The (bill|invoice|receipt) for {ord} (is not in my account|was not in the mail|does not open).
        Could you (issue|make|write) (an invoice|a bill) for {item} with VAT?
    """,
    "warranty": """
        The {part} of {item} (broke|failed|is worn out), (does the warranty pay|is that a warranty case|is that under guarantee).
        Do I (have|get) a (guarantee|warranty) (on|with|for) {item} and (how many years|for how long)?
        {item} needs a repair, is it (free under warranty|covered by the guarantee|still under guarantee)?
        (When|In which year) does the (guarantee|warranty) of {item} (end|expire|run out)?
        I (claim|want to use) the (guarantee|warranty) for {item} that I bought in {month}.
        Is a (repair|new {part}) (covered|free|included) (by|under|in) the (manufacturer's warranty|guarantee)?
        What (do I need|papers do I need) for a (warranty|guarantee) (case|claim)?
        Am I (covered|entitled to a repair) by the warranty of {item}?
    """,
    "password": """
        I have (no access|lost access) to my (profile|account|login).
        The (site|website|app) (does not accept|refuses|rejects) my (password|login|credentials|username).
        (Signing in|Logging in|The login) (fails|does not work|gives an error) (every time|since today|).
        I need a new (password|passcode|login).
        (Help me|I want to) (get back into|get access to|recover) my account.
        My passcode (is wrong|was forgotten|does not work) and I cannot get (in|into my profile).
        What (can I do|should I do) if I forgot my (login|password|passcode|username)?
        I am (shut|locked|kicked) out of my (account|profile) (again|).
    """,
    "double_charge": """
        My (statement|bank|account) shows (two|2) (debits|payments|bookings) of {amount} for {item}.
        {amount} (was taken|was debited|left my account|was booked) (twice|two times|a second time).
        You (took|collected|booked|debited) the (money|amount|price) for {ord} (twice|two times|again).
        I only bought one {item} but (paid|was billed|was charged) (for two|twice|double).
        Please (return|pay back|refund) the (second|extra|double) (payment|charge|debit).
        There is a (double|second|duplicate) (charge|payment|debit|booking) for {item}.
        I was (overcharged|charged too much) for {item}, the price was {amount}.
    """,
    "subscription": """
        I (no longer want|don't want|quit) the (monthly|yearly|premium) (plan|subscription|membership).
        The (subscription|membership|plan) (should not|must not) be (renewed|extended) (in {month}|any more|).
        (Take|Remove) me from the (premium|monthly|yearly) (membership|plan|subscription).
        You (deduct|take|charge) {amount} (every|each) month for a (plan|membership|subscription) I (quit|ended|stopped|cancelled).
        (Terminate|Stop|End) my (membership|subscription|contract) (after {month}|now|please).
        How much is the (yearly|premium|family) (plan|subscription|membership)?
        I want to (move|switch|change) from the (monthly|yearly) to the (yearly|basic|family) (plan|subscription).
        My (free trial|trial) (ended|is over|ends), (cancel it|I don't want to pay|what now).
    """,
    "how_to": """
        What (do I do|do I have to do|is the first step) to (start|use|set up|mount|install) {item}?
        I need (help|instructions|guidance|tips) (with the setup of|to assemble|for using|to install) {item}.
        (Please tell|Show|Teach) me how {item} (works|is used|is put together|is mounted).
        I (lost|misplaced|threw away) the (manual|booklet|instructions) of {item}.
        How (is|should) the {part} of {item} (be mounted|be attached|attached|be cleaned)?
        The (manual|booklet|guide) does not (say|explain) how to (use|clean|mount|change) the {part}.
        What are the (settings|steps|instructions) for {item}?
        (First time|New) user here, how does {item} work?
        Can I (wash|clean|use) {item} (in the dishwasher|with water|outside)?
    """,
    "complaint": """
        (Nobody|No one|Not one person) (answered|replied to|reacted to) my (letters|calls|mails|messages).
        I am (furious|angry|fed up|so annoyed) about (the way you treat customers|{ord}|your team).
        (Bad|Awful|Dreadful|Horrible) (customer care|service|support), (I am furious|never again|shame on you).
        Get me (your boss|a manager|a supervisor|someone in charge).
        You (ignored|ignore) me for {days}, (that is no way to treat people|this is bad service|I am fed up).
        {item} has (been nothing but trouble|caused me only trouble), I am (angry|upset|fed up).
        I was (treated|handled) (badly|rudely|like dirt) by your (staff|team|support).
        I will (write a bad review|tell everyone|go to another shop), you (do not care|never answer|are useless).
        (Worst|Poorest) (shop|company|service) (ever|I know), {item} is (junk|rubbish|a scam).
    """,
    "praise": """
        {item} is (even better than|more than) I (expected|hoped), (well done|great work|bravo).
        (Compliments|Big thanks|Many thanks) to (the team|everyone|your driver), {item} is (lovely|superb|brilliant).
        You (solved|fixed) my (problem|issue) (so fast|quickly|in no time), (I am so pleased|thank you|great job).
        I am (so pleased|delighted|thrilled|really happy) with {item}.
        (What a|Such a) (lovely|brilliant|beautiful|delightful) (product|thing|purchase), I (smile|am happy) every day.
        (Well done|Good job|Brilliant job|Keep up the good work), {ord} was (perfect|spot on|great).
        Just a (note|word|message) to say that {item} (makes me happy|is super|is excellent).
        (The best|Really good) (shop|service|support) (ever|I know), thank you.
    """,
    "discount": """
        At the (checkout|till|basket) my (coupon|voucher|gift card) (gives an error|was not taken|fails).
        The (ten|twenty|five) percent (off|discount) (was|were) not (deducted|applied|given) on {ord}.
        The price of {item} (dropped|fell|went down) (after I bought it|{days} later), (can I get the difference|pay me the difference).
        I (have|own|got) a (gift voucher|gift card|coupon) (that does not work|for {item}|you do not take).
        (Can|Could) you (apply|add) the (coupon|discount|promo code) {code} to {ord}?
        Your (newsletter|ad) (promised|offered) a (discount|coupon|lower price) for {item}.
        Why did I pay the full price for {item}? (I had a coupon|It is cheaper now|There was a sale).
    """,
    "availability": """
        I want to (buy|purchase|get) (one more|another|a second) {item} but (there are none left|it is sold out|you have none).
        (Will|Does) {item} (come back|return) to the (shop|store|catalogue)?
        Does (the shop|your store|the branch) in {city} (have|carry|stock) {item}?
        (Put aside|Reserve|Keep) one {item} for me please.
        How many of {item} (are left|do you have|are in stock)?
        (Any chance|Is there a chance) to (get|buy) {item} (before|in) {month}?
        {item} (has been|is) (unavailable|out of stock|sold out) (for {days}|since {month}|), (when can I buy it|will you get more).
    """,
    "exchange_item": """
        (I prefer|I'd rather have|Could I have) {item} in (green|grey|another colour|a bigger size).
        The size (is wrong|is too narrow|does not suit me|I picked is too small), (I want|I need|please send) the next (size|one) (up|down).
        (Trade|Swap|Exchange|Change) {item} (for|against) a (larger|smaller|wider|longer) one.
        {item} is too (short|long|narrow|wide|heavy), (I'd like|give me|I want) (another size|a different one).
        (Is|Would) an exchange (of {item}|) (be possible|possible|free)?
        It (doesn't|does not) fit (me|my daughter|), (replace it with|I want|send me) a (larger|smaller|bigger) (one|size).
        I want the same in (size L|size S|red|blue), (can we swap|please exchange|is that possible).
    """,
    "pending_transfer": """
        The (money|amount) I (wired|moved|sent) {days} ago (has yet to|did not) (arrive|be credited|show up).
        My (landlord|friend|mother|boss) (says|tells me) that (the money|my transfer|nothing) has (not|never) (arrived|reached him).
        Why (does|do) (transfers|a transfer|my bank transfer) take (so long|so many days|days)?
        I (moved|sent|wired) {amount} from (my other bank|another account) and it is not (there|credited|here).
        (Is it normal|Why) that a transfer (stays|remains|is) pending (for {days}|this long)?
        My (salary|wages|deposit) (has not been credited|did not arrive|is not on my account).
        The (bank transfer|wire|payment) (is stuck|hangs|is delayed), it was sent {days} ago.
    """,
    "top_up_failed": """
        I (added|loaded|put in) {amount} (onto|to) my (card|account|balance) (and it is not there|but the app shows zero|).
        (Adding|Loading) (money|funds) (ended in|gives) an error.
        (Topping up|Adding funds) (does not work|is not possible|got reversed|is refused).
        The (funds|money) I (loaded|added|topped up) (do not appear|did not arrive|are gone).
        My (top up|top-up) was (reversed|returned|refused|not accepted), what (happened|went wrong)?
        Where is the {amount} that I topped up?
        Can I (top up|add money|load funds) (by card|with cash|automatically)?
    """,
    "lost_card": """
        A (thief|stranger|man) (stole|grabbed|took) my (purse|wallet|bag) with (my card|the bank card) in it.
        My (bank card|debit card|credit card) (has vanished|is missing|is gone|disappeared) since (yesterday|today|last night).
        (Deactivate|Disable|Block|Lock) my (stolen|lost|missing) card (immediately|now|please).
        I (dropped|forgot|misplaced) my card (somewhere|on the bus|in {city}), (stop|block) all payments.
        My card is (no longer in my wallet|not in my pocket|nowhere to be found).
        I want to report a (stolen|lost|missing) card.
        I was robbed in {city}, (the card is gone|they have my card|what should I do).
    """,
    "exchange_rate": """
        The (currency conversion|conversion|rate) (on my trip|for my purchase|in {city}) (cost too much|is far too high|seems too high).
        (Where can I see|Where do I find|How do I look up) the (conversion|exchange|currency) (rate|rates)?
        I (paid|bought something|used my card) in a foreign currency and the rate was (bad|worse than in the news|strange).
        How good is your rate (for pounds|for dollars|into euros|for yen)?
        I want to convert {amount} (to dollars|into euros|into pounds), what (rate|exchange rate) do I get?
        (Converting|Changing|Exchanging) (euros|pounds|dollars) into (yen|euros|dollars), what does it cost?
        You (used|applied) a (bad|wrong|poor) (conversion|exchange) rate (abroad|for my trip|).
    """,
    "card_arrival": """
        I (applied for|asked for|requested) a (debit|credit|bank) card {days} ago and my (letterbox|mailbox) is empty.
        (Is there|Do you have) a tracking number for (my card|the bank card|the new card)?
        The card you (mailed|sent|posted) (is not here|has not come|never came).
        What is the (waiting time|delivery time) for a (new|fresh|second) card?
        (The|My) (new card|card|plastic) (arrived|is here|came today), how do I (switch it on|start using it|activate it)?
        (Has|Was) my (card|new card) (been sent|sent out|mailed) (yet|already|)?
        My old card (expires|expired) in {month}, when do I get the new one?
    """,
    "card_declined": """
        The (cashier|shop|waiter) (said|told me) that my card (would not work|was refused|did not go through).
        (Every|Each) (purchase|payment) (on the internet|online|in shops) (is|gets) (refused|declined|rejected).
        The (terminal|reader|machine) (showed|said|says) (declined|error|card not valid).
        No (shop|reader|terminal) (takes|accepts|reads) my card, is it blocked?
        My card (seems|is) (blocked|inactive|broken) (at the terminal|when I pay|in every shop).
        I had to pay cash because the card (was refused|did not go through|was declined).
        (Paying|Payment) with my card (fails|is not possible|does not go through) (in {city}|online|).
    """,
    "cash_withdrawal": """
        (No cash|No money|No banknotes|Nothing) came out of the (ATM|cash machine|machine) but {amount} (is gone|was taken|was debited).
        The (machine|ATM) at the (station|airport|bank) (did not return|kept|swallowed) my card.
        I (asked for|wanted) {amount} and the (ATM|cash machine) (paid|gave) only half.
        Getting cash (abroad|from a machine|at the ATM) cost me {amount}, why?
        The ATM (paid out|gave) the wrong (sum|amount) in {city}.
        Is (getting|withdrawing) cash free (abroad|in {city}|at every ATM)?
        My balance shows a withdrawal but I did not get the (notes|cash|money).
    """,
    "unknown_payment": """
        (Somebody|A thief|A fraudster|Fraudsters) (got|has|have) my card (details|number|data).
        I (spotted|noticed|see|found) a (purchase|payment|debit) (in {city}|of {amount}) that (wasn't mine|is not mine|I never authorised).
        Who (is|took|charged) this? The (name|shop|company) on my statement (says|means) nothing to me.
        I did not (authorise|make|approve|buy) this, {amount} (is gone|was taken from my account).
        (Fraud|Scam|Suspicious payment|Strange payment) on my (account|card), (please look into it|please check|help).
        There are (purchases|payments|transactions) on my statement that (I never made|are not mine|look like fraud).
        My money was (stolen|taken) by (a stranger|hackers|a scam shop).
    """,
    "verify_identity": """
        (The picture|A photo|The scan) of my (passport|ID|driving licence) (is|was|gets) (refused|rejected|not accepted).
        (Which|What) (papers|documents|proof) (must I hand in|do you want|are needed) so that (you know who I am|I am verified)?
        I (uploaded|sent|handed in) my (ID|passport) {days} ago (and am not verified|but nothing happened|).
        Why (a selfie|a passport photo|an identity check), (is that safe|is it needed|I don't get it)?
        The (selfie|video|face check|passport scan) (fails|does not work) (every time|).
        What is the purpose of (proving|verifying|checking) (who I am|my identity)?
        My account says not verified, (what do I do|which ID do you need|why).
    """,
    "change_pin": """
        I want (another|a different|a new|to pick a new) PIN.
        (What must I do|Where do I go|How does it work) to (choose|set|pick|get) a (new|four-digit|different) PIN?
        (Three|Two|Too many) wrong (attempts|tries), now the PIN (is blocked|won't work|is not accepted).
        The (letter|message) with the PIN (never came|is lost|did not arrive).
        The PIN (has slipped my mind|is gone from my head), (can I view it|can you show it|how do I see it)?
        Is there a way to (view|see|look up|unlock) my PIN?
    """,
    "close_account": """
        (Get rid of|Shut down|Wipe|Terminate) my (account|profile) (please|completely|).
        I (no longer want to be|do not want to be) a customer (of yours|), (delete|erase|close) everything.
        (According to|Under|By) (privacy law|GDPR|the data law) (I want|I ask you) to (erase|delete) (my data|what you store).
        I (moved to|use|found) another bank, (close|shut) (my account|the account).
        (Erase|Remove|Wipe) every record you (have|hold|store) (about|on) me.
        My profile (should|must) be (deleted|removed|erased|wiped).
        (Is it hard|How long does it take) to close an account?
    """,
    "change_details": """
        (Since|After) my (wedding|divorce|marriage) I (have|go by|use) a (new|different) (surname|last name|name).
        There is a (spelling error|typo|mistake) in my (name|email|profile).
        My (contact details|details|profile data) (are outdated|are old|changed), (please adjust|please update them|from now on use {contact}).
        (Where|How) (may|can|do) I edit my (profile|mobile number|details|surname)?
        Please (correct|adjust|fix) the (spelling|way you write) of my name.
        From now on (use|write to|take) {contact} (for me|for my account|).
        The (mobile|phone) number (in|linked to|of) my (profile|account) is (old|outdated|not mine).
    """,
    "fees_limits": """
        (Nobody|No one) told me (about|of) (the|this) (fee|cost|charge) of {amount}.
        Where is the (price list|list of fees|table of costs)?
        (Who|How) can I (lift|raise|change) my (daily maximum|spending limit|limit)?
        I (wish|want|need) to (spend|send|pay) more than my (limit|maximum|daily limit).
        Sending money (costs|cost) {amount} (on top|extra), (why|is that right)?
        What (does|will) it cost to (send money|have a card|keep the account)?
        (An additional|A strange|A monthly) (fee|cost) (is on|appears on) my (statement|account).
    """,
    "wrong_transfer": """
        I (mistyped|got wrong|mixed up) the (IBAN|account number|name) and {amount} went to (a stranger|somebody else|the wrong one).
        (Recall|Stop|Reverse|Call back) the (payment|transfer) (I made|to {iban}|of {amount}), it was (a slip|an error|a mistake).
        The money (went|was sent) to (somebody|a person|someone) I don't know, (a digit was wrong|I made a typo|by mistake).
        How do I get back (money|a transfer|{amount}) (sent in error|sent by mistake|sent to the wrong account)?
        One (digit|letter|number) of the (IBAN|account number) was (off|wrong).
        I (regret|want to undo|want to take back) my (transfer|payment) (of {amount}|to {iban}|).
        I (picked|chose|clicked) the wrong (recipient|contact|person) for a transfer.
    """,
    "generic": """
        (Who|Which of you) knows about (business customers|school orders|partnerships|large orders)?
        I'd like (a word|to talk) with (someone|one of your staff|an expert), it is (complicated|not simple|private).
        The (page|site|screen) (stays|is) (white|blank|empty) (when I open it|on my tablet|on my phone).
        Is (your office|the branch|your shop) in {city} open (today|on Saturday|during the holidays)?
        (Where|In which street) is your (office|shop|branch) in {city}?
        The app (does not open|keeps closing|has a bug) (since the update|on my phone|).
        (I have an idea|I have a suggestion|A tip) for your (app|shop|company).
        Can you (tell|explain) me something about (your company|the weather|politics|a film)?
        (The file|The export|A link) on your (site|server) (gives an error|is broken|does not load).
        (What is|What's) your (phone number|address|name)?
    """,
}
