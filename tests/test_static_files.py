"""Static files as browsers get them: hashed names, compressed, kept for ever."""

import re

import httpx
import pytest

from tests.servers import environment, start_web

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(scope="module")
def web(django_db_setup, tmp_path_factory):
    web = start_web(environment(), tmp_path_factory.mktemp("static") / "web.log")
    yield web
    web.stop()


@pytest.fixture(scope="module")
def login_page(web, django_db_blocker):
    with django_db_blocker.unblock():
        return httpx.get(f"{web.url}/login/", timeout=30).text


def addresses(text):
    return re.findall(r'(?:href|src)="(/static/[^"#]+)', text)


def test_every_address_has_a_digest_and_is_kept_for_ever(web, login_page):
    found = set(addresses(login_page))

    assert len(found) >= 4
    for address in found:
        answer = httpx.get(web.url + address, headers={"Accept-Encoding": "gzip"}, timeout=30)
        assert re.search(r"\.[0-9a-f]{12}\.\w+$", address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers.get("Content-Encoding") == "gzip" or len(answer.content) < 500


def test_modules_import_modules_with_digests(web, login_page):
    frame = next(one for one in addresses(login_page) if "/frame." in one)

    text = httpx.get(web.url + frame, timeout=30).text

    (name,) = re.findall(r'from "\./(live_page[^"]+)"', text)
    assert re.fullmatch(r"live_page\.[0-9a-f]{12}\.js", name)
    assert httpx.get(f"{web.url}/static/js/{name}", timeout=30).status_code == 200


def test_files_are_collected_only_when_something_changed(settings, tmp_path):
    from gligabao.static_files import STAMP, collect_static_files

    settings.STATIC_ROOT = tmp_path
    collect_static_files()
    stamp = tmp_path / STAMP
    first = stamp.stat().st_mtime_ns
    marker = tmp_path / "marker"
    marker.touch()

    collect_static_files()
    assert (stamp.stat().st_mtime_ns, marker.exists()) == (first, True)

    stamp.write_text("another version")
    collect_static_files()
    assert not marker.exists()
