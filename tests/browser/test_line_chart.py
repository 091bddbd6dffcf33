"""The chart: what it reads out, zoom, smoothing, axes, gaps, spikes and themes."""

import math

import pytest
from playwright.sync_api import expect

from tests.factories import make_job
from training.contract import parse_report
from training.events import append_events

pytestmark = pytest.mark.browser

LOSSES = [3 * math.exp(-step / 20) + (0.3 if step % 2 else 0) for step in range(1, 61)]
# In the page: a chart of its own beside the page's, made by the same module.
MAKE = """async ({ lines, options }) => {
  const source = [...document.scripts].find((one) => one.src.includes("job_detail")).src;
  const text = await (await fetch(source)).text();
  const name = text.match(/\\.\\/(line_chart[^"]+)/)[1];
  const { LineChart } = await import(new URL(name, source));
  const box = document.createElement("div");
  box.className = "plot";
  box.id = "own";
  document.querySelector("main").prepend(box);
  const words = JSON.parse(document.getElementById("chart-words").textContent);
  window.chart = new LineChart(box, { label: "own", words });
  Object.assign(window.chart, options);
  window.chart.setLines(lines);
}"""
# How many pixels of the canvas in these columns have nearly the colour of the first series.
COUNT = """([from, to]) => {
  const canvas = document.querySelector("#own canvas");
  const ratio = canvas.width / canvas.clientWidth;
  const data = canvas.getContext("2d").getImageData(from * ratio, 0, (to - from) * ratio, canvas.height).data;
  let highest = canvas.height;
  let number = 0;
  for (let at = 0; at < data.length; at += 4) {
    const row = Math.floor(at / 4 / ((to - from) * ratio));
    if (data[at] < 60 && data[at + 2] > 140) {
      number += 1;
      highest = Math.min(highest, row);
    }
  }
  return { number, highest: highest / ratio };
}"""


@pytest.fixture
def page(visitor_as):
    job = make_job(num_train_steps=60)
    reports = [
        {"type": "progress", "boot": "b", "seq": step, "step": step, "loss": loss, "elapsed_seconds": step * 2.0, "tokens": step * 1000}
        for step, loss in enumerate(LOSSES, start=1)
    ]  # fmt: skip
    reports.append({"type": "eval", "boot": "b", "seq": 100, "step": 30, "eval_loss": 1.25})
    append_events(job.pk, [parse_report(one) for one in reports], db="default")
    page = visitor_as("viewer", locale="en-GB").open(f"/console/jobs/{job.pk}/")
    page.job = job
    expect(page.locator("#plot")).to_have_attribute("aria-valuemax", "60")
    return page


def value(page):
    return page.locator("#plot").get_attribute("aria-valuetext")


def reads(page, text):
    expect(page.locator("#plot")).to_have_attribute("aria-valuetext", text)


def smoothed(values, weight):
    """Kingma and Ba's corrected mean, as the chart should have it."""
    total, power = 0.0, 1.0
    for one in values:
        total, power = total * weight + one * (1 - weight), power * weight
    return total / (1 - power)


def four(number):
    return f"{number:.4g}"


def test_keyboard_reads_values(page):
    plot = page.locator("#plot")
    expect(plot).to_have_role("slider")
    plot.focus()

    page.keyboard.press("Home")
    reads(
        page, f"step 1: Loss {four(LOSSES[0])} (smoothed {four(LOSSES[0])}), Eval loss 1.25 at 30"
    )
    page.keyboard.press("ArrowRight")
    assert value(page).startswith("step 2: ")
    page.keyboard.press("PageUp")
    assert value(page).startswith("step 8: ")
    page.keyboard.press("End")
    assert value(page).startswith("step 60: ")
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")
    assert value(page).startswith("step 53: ")
    expect(page.locator("#plot .plot-tip")).to_contain_text("step 53")


def test_smoothing_is_the_corrected_mean(page):
    page.get_by_label("Smoothing").fill("0.9")
    reads(
        page,
        f"step 60: Loss {four(LOSSES[-1])} (smoothed {four(smoothed(LOSSES, 0.9))}), Eval loss 1.25 at 30",
    )
    page.get_by_label("Smoothing").fill("0")
    reads(page, f"step 60: Loss {four(LOSSES[-1])}, Eval loss 1.25 at 30")
    page.get_by_label("Smoothing").fill("0.5")
    page.get_by_label("Log axis").check()
    mean = math.exp(smoothed([math.log(one) for one in LOSSES], 0.5))
    reads(page, f"step 60: Loss {four(LOSSES[-1])} (smoothed {four(mean)}), Eval loss 1.25 at 30")


def test_zoom_survives_new_numbers_and_is_reset(page, report):
    whole = page.get_by_role("button", name="Whole curve")
    plot = page.locator("#plot")
    box = plot.bounding_box()
    expect(whole).to_be_hidden()

    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 120)
    page.mouse.up()
    expect(whole).to_be_visible()
    report(page.job, {"type": "progress", "step": 61, "loss": 0.4}, start=200)
    expect(plot).to_have_attribute("aria-valuemax", "61")
    expect(whole).to_be_visible()
    page.mouse.dblclick(box["x"] + 300, box["y"] + 100)
    expect(whole).to_be_hidden()

    plot.focus()
    page.keyboard.press("+")
    expect(whole).to_be_visible()
    page.keyboard.press("Escape")
    expect(whole).to_be_hidden()
    page.keyboard.press("+")
    page.keyboard.press("-")
    expect(whole).to_be_hidden()


def test_other_numbers_and_axes(page):
    page.get_by_role("combobox", name="By").select_option("seconds")
    page.locator("#plot").focus()
    page.keyboard.press("End")
    expect(page.locator(".plot-tip strong")).to_have_text("step 60 · 0:02:00")
    page.get_by_role("combobox", name="By").select_option("tokens")
    page.keyboard.press("ArrowLeft")
    page.locator("#plot").focus()
    page.keyboard.press("Home")
    expect(page.locator(".plot-tip strong")).to_have_text("step 1 · 1,000")
    page.get_by_label("Show").select_option("tokens_per_second")
    reads(page, "No numbers yet")
    page.get_by_label("Show").select_option("loss")
    page.get_by_role("checkbox", name="Eval loss").uncheck()
    expect(page.locator("#plot")).not_to_have_attribute("aria-valuetext", "Eval")


def test_table_holds_the_last_points(page):
    page.get_by_text("The last 50 points as a table").click()

    rows = page.locator("#chart-table tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("60")
    expect(page.locator("#chart-table th")).to_have_text(["step", "Loss", "Eval loss"])


def test_no_spike_of_a_hundred_thousand_points_is_lost(page):
    points = [[step, 1.0] for step in range(100_000)]
    points[54_321][1] = 1.04
    page.evaluate(
        MAKE,
        {
            "lines": [{"key": "a", "label": "a", "color": 1, "dash": 0, "points": points}],
            "options": {},
        },
    )
    width = page.locator("#own").bounding_box()["width"]
    x = 52 + (width - 64) * 0.54321

    expect(page.locator("#own")).to_have_attribute("aria-valuemax", "99999")
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    spike = page.evaluate(COUNT, [round(x) - 2, round(x) + 3])
    flat = page.evaluate(COUNT, [round(x) + 40, round(x) + 45])

    assert flat["number"] > 0
    assert spike["number"] > flat["number"] + 10
    assert spike["highest"] < flat["highest"] - 5


def test_gap_is_read_and_ends_the_line(page):
    points = [[1, 2.0], [2, None], [3, 1.0]]
    page.evaluate(
        MAKE,
        {
            "lines": [{"key": "a", "label": "<b>a</b>", "color": 1, "dash": 0, "points": points}],
            "options": {},
        },
    )
    own = page.locator("#own")

    own.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")

    expect(own).to_have_attribute("aria-valuetext", "step 2: <b>a</b> no number")
    expect(own.locator(".plot-tip")).to_contain_text("<b>a</b> no number")
    assert own.locator("b").count() == 0


@pytest.mark.parametrize("value", [0.0, 3.0, -1.0, 1e-12, 1e300])
def test_equal_and_extreme_values_are_drawn(page, value):
    points = [[step, value] for step in range(1, 30)]
    page.evaluate(
        MAKE,
        {
            "lines": [
                {"key": "a", "label": "a", "color": 1, "dash": 0, "points": points, "smooth": True}
            ],
            "options": {"smoothing": 0.6},
        },
    )

    expect(page.locator("#own")).to_have_attribute("aria-valuemax", "29")
    assert page.evaluate(COUNT, [100, 300])["number"] > 100


def test_theme_repaints(page):
    pixel = "() => [...document.querySelector('#plot canvas').getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    assert page.evaluate(pixel) == [255, 255, 255]

    page.get_by_role("button", name="Dark theme").click()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert page.evaluate(pixel) == [26, 29, 28]
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()


def test_picture_is_saved(page):
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()

    assert download.value.suggested_filename == f"Run {page.job.pk}.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_first_steps_of_a_long_run_can_be_seen(page):
    points = [[step, 3 - step / 50] for step in range(1, 24)]
    lines = [{"key": "loss", "label": "Loss", "color": 1, "points": points}]
    page.evaluate(MAKE, {"lines": lines, "options": {}})
    page.evaluate("() => window.chart.setAxis({ kind: 'step', max: 20000 })")
    plot = page.locator("#own")
    expect(plot).to_have_attribute("aria-valuemax", "23")
    width = plot.evaluate("(one) => one.clientWidth")

    # A quarter of the width at least, and half of it at most: there is room for more.
    assert page.evaluate(COUNT, [round(width * 0.2), round(width * 0.25)])["number"] > 0
    assert page.evaluate(COUNT, [round(width * 0.6), round(width)])["number"] == 0

    page.evaluate("() => { for (let n = 24; n < 16000; n += 1) window.chart.push('loss', n, 2); }")
    expect(plot).to_have_attribute("aria-valuemax", "15999")
    assert page.evaluate(COUNT, [round(width * 0.7), round(width * 0.75)])["number"] > 0
    assert page.evaluate(COUNT, [round(width * 0.9), round(width)])["number"] == 0
