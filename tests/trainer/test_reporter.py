"""Reports: in the log first, then with the control plane, each once, whatever the network does."""

import json
import math
import threading

import pytest

from tests.trainer.control_plane import ControlPlane, free_port
from tests.trainer.jobs import CASES, JOB_TOKEN
from tests.waiting import eventually
from trainer.reporter import Reporter, strict_json
from trainer.secret_text import SecretText

NO_SECRETS = SecretText()


@pytest.fixture
def make_reporter(tmp_path):
    reporters = []

    def make(callback_url, *, on_stop=lambda: None) -> Reporter:
        reporter = Reporter(
            tmp_path / "events.jsonl",
            callback_url=callback_url,
            job_token=JOB_TOKEN,
            secret_text=SecretText(JOB_TOKEN),
            on_stop=on_stop,
        )
        reporters.append(reporter)
        return reporter

    yield make
    for reporter in reporters:
        reporter.close(0)


def read_log(tmp_path):
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


def test_reports_are_numbered_and_delivered_as_logged(make_reporter, control_plane, tmp_path):
    reporter = make_reporter(control_plane.callback_url)

    reporter.status("running")
    reporter.report("progress", step=1, loss=2.5)
    reporter.close()

    logged = read_log(tmp_path)
    assert [report["seq"] for report in logged] == [0, 1]
    assert {report["boot"] for report in logged} == {reporter.boot}
    assert list(control_plane.events.values()) == logged
    assert set(control_plane.tokens) == {f"Bearer {JOB_TOKEN}"}


def test_log_has_a_report_as_soon_as_it_is_made(make_reporter, tmp_path):
    reporter = make_reporter(None)

    reporter.status("running")

    assert read_log(tmp_path)[0]["status"] == "running"


def test_nothing_is_lost_or_doubled_while_nobody_answers(make_reporter, tmp_path):
    port = free_port()
    reporter = make_reporter(f"http://127.0.0.1:{port}/events")
    for step in range(1200):
        reporter.report("progress", step=step)
    assert len(read_log(tmp_path)) == 1200

    with ControlPlane(port) as plane:
        reporter.close()

        assert list(plane.events.values()) == read_log(tmp_path)
        assert plane.num_duplicates == 0
        assert max(len(batch) for batch in plane.posts) == 500


def test_server_errors_are_tried_again(make_reporter, control_plane):
    control_plane.answers["events"] = [(503, b""), (500, b""), (200, b"<html>hello</html>")]
    reporter = make_reporter(control_plane.callback_url)

    reporter.status("running")
    reporter.close()

    assert len(control_plane.events) == 1


def test_lost_answers_make_duplicates_that_do_no_harm(make_reporter, control_plane, tmp_path):
    control_plane.take_events, taken = lose_first_answer(control_plane)
    reporter = make_reporter(control_plane.callback_url)

    reporter.status("running")
    reporter.close()

    assert taken == [1, 1]
    assert control_plane.num_duplicates == 1
    assert list(control_plane.events.values()) == read_log(tmp_path)


def lose_first_answer(plane):
    """Take every batch, and answer the first with an error as if the answer was lost."""
    take, taken = plane.take_events, []

    def take_and_lose(reports):
        status, answer = take(reports)
        taken.append(len(reports))
        return (status, answer) if len(taken) > 1 else (502, {})

    return take_and_lose, taken


def test_bad_report_is_left_out_and_the_others_arrive(make_reporter, control_plane, capsys):
    control_plane.is_bad = lambda report: report.get("step") == 7
    reporter = make_reporter(control_plane.callback_url)
    for step in range(20):
        reporter.report("progress", step=step)

    reporter.close()

    steps = [report["step"] for report in control_plane.events.values()]
    assert steps == [step for step in range(20) if step != 7]
    assert "report 7 was refused with status 400" in capsys.readouterr().err


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_refused_token_ends_the_sending_but_not_the_log(
    make_reporter, control_plane, tmp_path, status
):
    control_plane.answers["events"] = [(status, b"")]
    reporter = make_reporter(control_plane.callback_url)
    reporter.status("running")
    eventually(lambda: not control_plane.answers["events"])

    reporter.report("progress", step=1)
    reporter.close()

    assert control_plane.posts == []
    assert len(read_log(tmp_path)) == 2


def test_answer_can_ask_for_the_end(make_reporter, control_plane):
    asked = threading.Event()
    control_plane.stop = True
    reporter = make_reporter(control_plane.callback_url, on_stop=asked.set)

    reporter.status("running")

    assert asked.wait(30)


def test_redirects_are_not_followed_with_the_token(make_reporter, control_plane):
    with ControlPlane() as other:
        control_plane.redirect_to = other.callback_url
        control_plane.answers["events"] = [(302, b"")]
        reporter = make_reporter(control_plane.callback_url)

        reporter.status("running")
        reporter.close()

        assert other.tokens == []
    assert len(control_plane.events) == 1


def test_p01_numbers_that_json_has_not_become_null():
    bodies = json.loads((CASES / "P01.json").read_text())["bodies"]
    losses = [json.loads(body)["loss"] for body in bodies]

    sent = [strict_json({"loss": loss, "step": 1}, NO_SECRETS) for loss in losses]

    assert [report["loss"] for report in sent] == [None] * 4
    assert [report.get("nonfinite") for report in sent] == ["nan", "inf", None, "inf"]
    assert strict_json({"loss": -math.inf}, NO_SECRETS) == {"loss": None, "nonfinite": "inf"}


def test_secrets_are_removed_wherever_they_stand():
    secret_text = SecretText(JOB_TOKEN)
    secret_text.remember_address(
        "http://host/artifacts/eyJtIjoiUFVUIiwiayI6Impvi:1tX0aB:c2lnbmF0dXJl?a=b1c2d3e4"
    )
    fields = {
        "error": f"GET http://host/x?X-Amz-Signature=deadbeefdeadbeef failed for {JOB_TOKEN}",
        "nested": [
            {"text": "token hf_EXAMPLE123 and eyJtIjoiUFVUIiwiayI6Impvi:1tX0aB:c2lnbmF0dXJl"}
        ],
    }

    clean = json.dumps(strict_json(fields, secret_text))

    assert "http://host/x?X-Amz-Signature=[removed]" in clean
    for secret in (JOB_TOKEN, "deadbeef", "hf_EXAMPLE", "eyJtIjoi"):
        assert secret not in clean
