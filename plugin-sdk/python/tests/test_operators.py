"""Operators: how they are declared, what they answer, and what comes of an exception."""

import json
import unittest
from dataclasses import dataclass
from typing import Any, List, Tuple

from tidegate import (
    DROP,
    PASS,
    Answer,
    BadConfiguration,
    Counter,
    FieldError,
    Gauge,
    Histogram,
    Permanent,
    Record,
    Remove,
    Set,
    Transient,
    dead_letter,
    log,
    micros,
    moment,
    operator,
    piece,
    replace,
    retry,
    route,
    split,
)
from tidegate.record import read_json
from tidegate.testing import Harness, TestRecord

SEEN = Counter("seen_total", "Seen", labels=["kind"])
SIZE = Gauge("size", "Size")
TIME = Histogram("time_seconds", "Time", bounds=[0.5, 1])


@dataclass(frozen=True)
class Config:
    names: List[str]


@operator(name="keep-filled", reads=["value"])
def keep_filled(record: Record) -> Answer:
    if not record.value:
        return DROP
    return replace(headers={"bytes": str(len(record.value))})


@operator(name="pick", config=Config, outputs=lambda config: config.names, reads=["key"])
class Pick:
    def __init__(self, config: Config) -> None:
        if not config.names:
            raise BadConfiguration("config key `names` has 0 entries; name at least one")
        self.calls = 0

    def process(self, record: Record) -> Answer:
        self.calls += 1
        return route((record.key or b"").decode(), headers={"call": str(self.calls)})


def answering(answer: Any, **arguments: Any) -> Harness:
    """An operator that answers so, or calls what makes the answer."""

    @operator(name="answer", reads=["key", "value", "headers", "attributes"], **arguments)
    def process(record: Record) -> Answer:
        made: Answer = answer(record) if callable(answer) else answer
        return made

    return Harness(process)


class Declarations(unittest.TestCase):
    def test_a_function_and_a_class_are_operators(self) -> None:
        harness = Harness(keep_filled)
        self.assertTrue(harness.run_one("").is_drop)
        self.assertEqual(harness.run_one("four").record.header_text("bytes"), "4")
        pick = Harness(Pick, {"names": ["a", "b"]})
        self.assertEqual(pick.outputs, ("a", "b"))
        first, second = pick.run([TestRecord(key="b"), TestRecord(key="a")])
        self.assertEqual((first.output, first.record.header("call")), ("b", b"1"))
        self.assertEqual((second.output, second.record.header("call")), ("a", b"2"))

    def test_what_is_not_declared_to_be_read_is_not_there(self) -> None:
        self.assertTrue(Harness(keep_filled).run_one(TestRecord("v", key="k")).record.key == b"k")

        @operator(name="read-nothing")
        def read_nothing(record: Record) -> Answer:
            return record.value is None and record.key is None and not record.headers and not record.attributes

        record = TestRecord("v", key="k", headers={"h": "1"}, attributes={"a": "1"})
        self.assertTrue(Harness(read_nothing).run_one(record).is_pass)

    def test_a_declaration_that_the_host_would_refuse_is_found_at_once(self) -> None:
        def declared(**arguments: Any) -> None:
            operator(**{"name": "ok", **arguments})(lambda record: PASS)

        for arguments, message in (
            ({"name": "Bad Name"}, "name is 'Bad Name'"),
            ({"version": "1"}, "version is '1', expected one such as 1.2.3"),
            ({"reads": ["vaule"]}, "reads has 'vaule', expected key, value, headers, attributes"),
            ({"outputs": ["a", "a"]}, "outputs are a, a, expected at most 256, each once"),
            ({"outputs": ["a\n"]}, "outputs have 'a.n'"),
            ({"metrics": [SEEN, SEEN]}, "metrics are seen_total, seen_total"),
            ({"metrics": [Counter("seen", ""), SEEN]}, "'seen_total' is shown as seen_total, as 'seen' is"),
            ({"metrics": [TIME, Gauge("time_seconds_sum", "")]}, "is shown as time_seconds_sum, as 'time_seconds' is"),
            ({"metrics": [Counter("series_refused", "")]}, "as a metric of the host is"),
            ({"version": "01.2.3"}, "version is"),
            ({"version": "1.2.3-01"}, "version is"),
            ({"version": "1.2.3-a..b"}, "version is"),
            ({"version": "99999999999999999999.0.0"}, "version is"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                declared(**arguments)
        for version in ("0.1.0", "1.2.3-rc.1", "1.2.3-0.a01+build.01", "1.2.3--"):
            declared(version=version)
        for arguments in ({"reads": "value"}, {"outputs": "left"}):
            with self.assertRaisesRegex(TypeError, "expected a list"):
                declared(**arguments)

    def test_a_function_that_takes_something_else_is_found_at_once(self) -> None:
        with self.assertRaisesRegex(TypeError, r"does not take \(record, config\)"):
            operator(name="ok", config=Config)(lambda record: PASS)
        with self.assertRaisesRegex(TypeError, "has no method process"):
            operator(name="ok")(type("Empty", (), {}))
        with self.assertRaisesRegex(TypeError, r"is not made by __init__\(self, config\)"):
            operator(name="ok", config=Config)(type("Odd", (), {"process": lambda self, record: PASS}))

        def generator(record: Record) -> Any:
            yield piece()

        with self.assertRaisesRegex(TypeError, "is a coroutine or a generator"):
            operator(name="ok")(generator)

    def test_a_metric_that_the_host_would_refuse_is_found_at_once(self) -> None:
        with self.assertRaisesRegex(ValueError, "has the name 'Seen'"):
            Counter("Seen", "Seen")
        with self.assertRaisesRegex(ValueError, "has the label 'le', which is the host's"):
            Counter("seen_total", "Seen", labels=["le"])
        with self.assertRaisesRegex(ValueError, "finite and ascending"):
            Histogram("time", "Time", bounds=[1, 1])


class Answers(unittest.TestCase):
    def test_true_passes_and_false_drops(self) -> None:
        self.assertTrue(answering(True).run_one("").is_pass)
        self.assertTrue(answering(False).run_one("").is_drop)

    def test_what_is_no_outcome_is_a_dead_letter(self) -> None:
        reason = answering(None).run_one("").reason
        self.assertRegex(str(reason), "process returned None, expected an outcome")

    def test_what_is_no_outcome_costs_its_record_alone_whatever_it_is(self) -> None:
        class Hostile:
            def __repr__(self) -> str:
                raise RuntimeError("no")

            @property
            def __class__(self) -> Any:
                raise RuntimeError("no")

        for wrong, shown in (
            (Hostile(), "an object of type Hostile"),
            (b"x" * 1_000_000, r"b'x{100}'\.\.\. \(1000000 in all\)"),
            ([1] * 1_000_000, "an object of type list"),
            (10**5000, "an object of type int"),
        ):
            harness = answering(wrong)
            answers = harness.run([TestRecord("a"), TestRecord("b")])
            for answer in answers:
                self.assertRegex(str(answer.reason), rf"process returned {shown}, expected an outcome\Z")

    def test_an_output_that_is_not_declared_is_a_dead_letter_that_names_it(self) -> None:
        for outcome in (route("middle"), split([piece(), piece("middle")])):
            reason = answering(outcome, outputs=["left"]).run_one("").reason
            self.assertEqual(reason, "operator answer has no output 'middle', it has 'left'")

    def test_changes_are_made_in_their_order(self) -> None:
        record = TestRecord("v", key="k", headers=[("a", "0"), ("b", "1")], attributes={"x": None}, event_time=5)
        changed = answering(
            replace(value=None, key="", headers=[Remove("a"), Set("b", "2"), Set("a", None)], event_time=None)
        ).run_one(record)
        self.assertEqual((changed.record.value, changed.record.key, changed.record.event_time), (None, b"", None))
        self.assertEqual(changed.record.headers, (("b", b"2"), ("a", None)))
        self.assertEqual(changed.record.attributes, (("x", None),))

    def test_pieces_have_identities_of_their_own(self) -> None:
        answer = answering(split([piece(value="a"), piece("left", value="b")]), outputs=["left"]).run_one("v")
        self.assertEqual([(output, record.value) for output, record in answer.records], [(None, b"a"), ("left", b"b")])
        self.assertEqual([record.id.emit for _, record in answer.records], [1, 2])

    def test_a_retry_says_when_and_why(self) -> None:
        answer = answering(retry(0.25, "busy")).run_one("v")
        self.assertEqual((answer.after_ms, answer.reason), (250, "busy"))
        longest = 2**32 - 1
        for after in (longest, float("inf"), 1e306, 10**400):
            self.assertEqual(answering(retry(after, "busy")).run_one("v").after_ms, longest)
        for after in (-1, float("nan")):
            with self.assertRaisesRegex(ValueError, "expected 0 or more"):
                retry(after, "")

    def test_what_cannot_be_a_field_is_refused_where_it_is_said(self) -> None:
        for make, message in (
            (lambda: replace(value=5), "int is no field, expected bytes or str"),
            (lambda: replace(headers=["a"]), "headers have 'a', expected Set, Add or Remove"),
            (lambda: dead_letter(b"why"), "reason is b'why', expected text"),
            (lambda: split(["a"]), "a split has 'a', expected what piece"),
            (lambda: route(1), "output is 1, expected the name of an output"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                make()  # type: ignore[no-untyped-call]
        with self.assertRaisesRegex(ValueError, "a name in headers has 65536 bytes, at most 65535 can be"):
            replace(headers={"n" * 65536: ""})
        with self.assertRaisesRegex(ValueError, "split into 4096 pieces, at most 4095 can be"):
            split([piece()] * 4096)

    def test_times_are_microseconds_or_moments(self) -> None:
        time = moment(1_700_000_000_123_456)
        self.assertEqual(micros(time), 1_700_000_000_123_456)
        self.assertEqual(answering(replace(event_time=time)).run_one("").record.event_time, 1_700_000_000_123_456)
        with self.assertRaisesRegex(ValueError, "has no time zone"):
            micros(time.replace(tzinfo=None))


class Exceptions(unittest.TestCase):
    def test_one_is_a_dead_letter_with_type_message_and_line(self) -> None:
        def fail(record: Record) -> Answer:
            raise KeyError("gone")

        reason = answering(fail).run_one("").reason
        line = fail.__code__.co_firstlineno + 1
        self.assertEqual(reason, f"KeyError: 'gone' (test_operators.py:{line})")

    def test_the_line_is_the_users_where_the_fault_is_below_it(self) -> None:
        def read(record: Record) -> Answer:
            return replace(value=record.json()["name"])

        harness = answering(read)
        line = read.__code__.co_firstlineno + 1
        for value, reason in (
            ("{", "FieldError: value is not JSON: "),
            (None, "FieldError: value is null, expected JSON"),
            ("NaN", "FieldError: value is not JSON: NaN is no JSON"),
            (b"\xff", "FieldError: value is not JSON: 'utf-8' codec"),
            ("[" * 100_000, "FieldError: value is not JSON: nested more than 128 deep"),
            ("{}", "KeyError: 'name'"),
            ('{"name": "\\ud800"}', "UnicodeEncodeError: "),
        ):
            came = str(harness.run_one(TestRecord(value)).reason)
            self.assertTrue(came.startswith(reason), came)
            self.assertTrue(came.endswith(f" (test_operators.py:{line})"), came)

    def test_one_costs_its_neighbours_nothing(self) -> None:
        def fail(record: Record) -> Answer:
            SEEN.add(kind="a")
            if record.value == b"bad":
                raise SystemExit(3)
            return PASS

        harness = answering(fail, metrics=[SEEN])
        answers = harness.run([TestRecord("good"), TestRecord("bad"), TestRecord("good")])
        self.assertEqual([answer.action for answer in answers], ["pass", "dead-letter", "pass"])
        self.assertEqual(harness.counter(SEEN, kind="a"), 2)

    def test_one_whose_message_cannot_be_shown_is_told_all_the_same(self) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise ValueError

        def fail(record: Record) -> Answer:
            raise Odd

        self.assertRegex(str(answering(fail).run_one("").reason), r"\AOdd: its message cannot be shown \(")

    def test_a_failure_fails_the_batch(self) -> None:
        for failure in (Transient("busy", "later"), Permanent("broken", "never"), BadConfiguration("wrong")):

            def fail(record: Record, failure: Exception = failure) -> Answer:
                raise failure

            with self.assertRaises(type(failure)):
                answering(fail).run([TestRecord("a"), TestRecord("b")])

    def test_memory_that_runs_out_is_not_the_records_fault(self) -> None:
        def fail(record: Record) -> Answer:
            raise MemoryError

        with self.assertRaises(MemoryError):
            answering(fail).run_one("")

    def test_one_in_a_start_refuses_the_revision(self) -> None:
        with self.assertRaisesRegex(BadConfiguration, "`names` has 0 entries"):
            Harness(Pick, {"names": []})

        @operator(name="fail-to-start")
        class FailToStart:
            def __init__(self) -> None:
                raise OSError("no file")

            def process(self, record: Record) -> Answer:
                return PASS

        with self.assertRaisesRegex(Permanent, r"exception: OSError: no file \(test_operators.py:\d+\)"):
            Harness(FailToStart)


class Effects(unittest.TestCase):
    def test_text_is_read_or_said_to_be_none(self) -> None:
        def text(record: Record) -> Answer:
            return replace(value=record.text.upper())

        harness = answering(text)
        self.assertEqual(harness.run_one("é").record.text, "É")
        self.assertRegex(str(harness.run_one(b"ab\xff").reason), "FieldError: value is not UTF-8 at byte 2")
        with self.assertRaises(FieldError):
            harness.run_one(TestRecord("x")).records[0][1].json()

    def test_json_is_read_up_to_a_depth(self) -> None:
        def read(value: bytes) -> Any:
            return read_json(value)

        def nested(depth: int) -> bytes:
            return b"[" * depth + b"]" * depth

        self.assertEqual(json.dumps(read(nested(128))).encode(), nested(128))
        for deep in (nested(129), b"[" * 1_000_000, b'{"a":' * 129, b'["' + b'\\"' * 99 + b'\\\\",' + nested(128) + b"]"):
            with self.assertRaisesRegex(FieldError, r"\Avalue is not JSON: nested more than 128 deep\Z"):
                read(deep)
        self.assertEqual(len(read(b"[" + b",".join([b"[{}]"] * 1000) + b"]")), 1000)
        for text in ("[" * 200, '"[' * 200, "\\" * 200 + "[" * 200, '\\"{' * 200):
            self.assertEqual(read(json.dumps([text, [text]]).encode()), [text, [text]])

    def test_json_is_read_as_the_table_says(self) -> None:
        self.assertEqual(read_json(b'{"a": 1, "a": 2}'), {"a": 2})
        self.assertEqual(read_json(b'"a\\ud800b"'), "a\ud800b")
        self.assertEqual(read_json(b"1e400"), float("inf"))
        with self.assertRaises(FieldError):
            read_json(b"1" * 5000)
        reason = answering(lambda record: replace(value=record.json())).run_one(b'"a\\ud800b"').reason
        self.assertRegex(str(reason), r"\AUnicodeEncodeError: ")

    def test_measurements_count_by_their_labels(self) -> None:
        def measure(record: Record) -> Answer:
            SEEN.add(2, kind="é" * 200)
            SIZE.set(float("nan"))
            SIZE.set(3)
            TIME.observe(0.25)
            return retry(1, "") if record.value else PASS

        harness = answering(measure, metrics=[SEEN, SIZE, TIME])
        harness.run([TestRecord(""), TestRecord("again")])
        self.assertEqual(harness.counter(SEEN, kind="é" * 200), 2)
        self.assertEqual([len(sample.labels[0]) for sample in harness.samples if sample.labels], [128])
        self.assertEqual((harness.values(SIZE), harness.values("time_seconds")), ([3], [0.25]))

    def test_a_measurement_that_cannot_be_is_a_dead_letter_with_its_line(self) -> None:
        def many(record: Record) -> Answer:
            for _ in range(257):
                SEEN.add(kind="a")
            return PASS

        for measure, reason in (
            (lambda record: SIZE.set(1), "metric 'size' is not among the metrics of the operator"),
            (lambda record: SEEN.add(1), "measured with no labels, it has the labels kind"),
            (lambda record: SEEN.add(1, sort="a"), "measured with the labels sort, it has the labels kind"),
            (lambda record: SEEN.add(-1, kind="a"), "is given -1, expected a whole number from 0"),
            (lambda record: SEEN.add(0.5, kind="a"), "is given 0.5"),
            (many, "a record has more than 256 measurements"),
        ):
            came = str(answering(measure, metrics=[SEEN]).run_one("").reason)
            self.assertRegex(came, r"ValueError: .*" + reason + r".* \(test_operators.py:\d+\)")

    def test_lines_are_kept_with_their_level(self) -> None:
        def lines(record: Record) -> Answer:
            log.info("a line")
            log.error("\ud800")
            return PASS

        harness = answering(lines)
        harness.run_one("")
        expected: List[Tuple[str, str]] = [("info", "a line"), ("error", "\\ud800")]
        self.assertEqual(harness.log, expected)

    def test_random_numbers_are_those_of_the_identity(self) -> None:
        def draw(record: Record) -> Answer:
            random = record.random()
            numbers = [random.below(6) for _ in range(600)]
            fair = all(60 < numbers.count(number) < 140 for number in range(6)) and random.below(0) == 0
            return replace(value=f"{record.random().bits()} {0 <= random.unit() < 1} {random.chance(1)} {fair}")

        first, second = answering(draw).run([TestRecord(), TestRecord()])
        self.assertEqual(first.record.text, "4654127698191776692 True True True")
        self.assertNotEqual(first.record.text, second.record.text)
        self.assertEqual(answering(draw).run_one(TestRecord()).record.text, first.record.text)
