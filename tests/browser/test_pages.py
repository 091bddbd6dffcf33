"""Every page, in both themes and widths: nothing for axe to say, nothing wider than the screen."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.factories import end_job, make_dataset, make_job, make_trained_model
from training.contract import parse_report, server_event
from training.events import append_events
from training.models import TokenStatistics

pytestmark = pytest.mark.browser

PAGES = (
    "/console/", "/console/jobs/", "/console/jobs/?q=nothing", "/console/jobs/{running}/",
    "/console/jobs/{failed}/?events=all", "/console/jobs/{done}/", "/console/jobs/{running}/log/",
    "/console/jobs/new/", "/console/jobs/compare/?id={running}&id={failed}&id={done}",
    "/console/jobs/compare/", "/console/datasets/", "/console/datasets/upload/",
    "/console/datasets/mine.jsonl/?tokens=tiny", "/console/models/", "/console/models/{model}/",
    "/console/models/{model}/files/", "/console/settings/", "/console/settings/tokens/",
    "/console/settings/about/", "/console/nothing/",
)  # fmt: skip
AXE = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }
}


@pytest.fixture
def rows():
    """Something of each kind to show; their numbers, for addresses."""
    make_dataset()
    running, failed, done = (
        make_job(name=name, tags=["a tag"]) for name in ("one", "two", "three")
    )
    for job in (running, failed, done):
        reports = [
            {"type": "status", "status": "training"},
            {"type": "warning", "code": "x", "message": "something odd"},
            *(
                {"type": "progress", "step": n, "loss": 3 / n, "elapsed_seconds": n}
                for n in range(1, 30)
            ),
            {"type": "eval", "step": 20, "eval_loss": 1.0},
            {"type": "checkpoint", "step": 20, "path": "checkpoint-20", "size_bytes": 29306880},
        ]
        append_events(
            job.pk,
            [parse_report({"boot": "b", "seq": n, **one}) for n, one in enumerate(reports)],
            db="default",
        )
    ended = server_event("status", status="failed", reason="out_of_memory", error="exit 137",
                         final_loss=None, model_id=None)  # fmt: skip
    append_events(failed.pk, [ended], db="default")
    file = {"path": "adapter_model.safetensors", "size_bytes": 4096, "sha256": "b" * 64}
    model = make_trained_model(run=end_job(done), files=[file], note="A note.")
    TokenStatistics.objects.create(
        dataset_sha256=make_dataset().sha256, base_model="tiny", revision="1", status="ready",
        num_rows=3, num_trained=9, lengths={"10": 2, "300": 1}, firsts={"7": 3},
    )  # fmt: skip
    return {"running": running.pk, "failed": failed.pk, "done": done.pk, "model": model.pk}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_and_nothing_is_too_wide(visitor_as, rows, theme, width):
    visitor = visitor_as("admin", color_scheme=theme, viewport={"width": width, "height": 900})
    page = visitor.open("/console/")
    found = {}

    for address in PAGES:
        page.goto(visitor.url + address.format(**rows))
        page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => (one.open = true))"
        )
        violations = Axe().run(page, options=AXE).response["violations"]
        if violations:
            found[address] = [
                (one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in violations
            ]
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, address
        assert page.locator("h1").count() == 1, address

    visitor.problems[:] = [one for one in visitor.problems if "404" not in one]
    assert found == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_the_login(visitor, theme):
    page = visitor(color_scheme=theme).open("/login/")

    assert Axe().run(page, options=AXE).response["violations"] == []
    page.get_by_label("User name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert Axe().run(page, options=AXE).response["violations"] == []


def test_first_load_of_a_run_is_small(visitor_as, rows):
    """Under 80 KB and 12 requests, and all of them to our own server."""
    visitor = visitor_as("viewer")
    page = visitor.context.new_page()
    sizes = []

    def note(request):
        assert request.url.startswith((visitor.url, "data:"))
        if not request.url.startswith("data:") and "/events" not in request.url:
            found = request.sizes()
            sizes.append(found["responseBodySize"] + found["responseHeadersSize"])

    page.on("requestfinished", note)
    page.goto(f"{visitor.url}/console/jobs/{rows['running']}/")
    expect(page.locator("[data-feed-state]")).to_have_text("Live")
    expect(page.locator("#plot")).to_have_attribute("aria-valuemax", "29")
    page.wait_for_load_state("load")

    assert len(sizes) <= 12
    assert sum(sizes) < 80_000
