"""The compose file and the image, as far as they can be read without an engine."""

import re
from pathlib import Path

import pytest
import yaml

from gligabao.web import open_socket

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OURS = ("prepare", "web", "worker", "beat")


def test_one_image_serves_all_our_processes():
    assert set(SERVICES) == {"postgres", "redis", *OURS}
    assert {SERVICES[name]["image"] for name in OURS} == {"gligabao"}
    assert {SERVICES[name]["build"] for name in OURS} == {"."}


@pytest.mark.parametrize("name", OURS)
def test_our_processes_share_databases_broker_and_data(name):
    service = SERVICES[name]

    assert service["environment"] == SERVICES["web"]["environment"]
    assert service["volumes"] == ["data:/data"]


def test_processes_start_after_tables_and_services_are_there():
    for name in ("web", "worker", "beat"):
        assert SERVICES[name]["depends_on"]["prepare"] == {
            "condition": "service_completed_successfully"
        }
    for name in OURS:
        assert SERVICES[name]["depends_on"]["postgres"] == {"condition": "service_healthy"}
        assert SERVICES[name]["depends_on"]["redis"] == {"condition": "service_healthy"}
    assert SERVICES["prepare"]["restart"] == "no"


@pytest.mark.parametrize("name", ["postgres", "redis", "web", "worker"])
def test_service_has_a_health_check(name):
    check = SERVICES[name]["healthcheck"]

    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries"} <= set(check)


def test_health_check_of_web_is_valid_python():
    compile(SERVICES["web"]["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_no_password_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    uses = re.findall(r"\$\{POSTGRES_PASSWORD[^}]*\}", text)

    assert uses
    assert set(uses) == {"${POSTGRES_PASSWORD:?Set POSTGRES_PASSWORD in .env}"}


def test_only_this_machine_reaches_the_port():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports == ["127.0.0.1:7878:7878"]


def test_trainers_reach_the_web_process_by_a_name_that_it_answers_to():
    environment = SERVICES["worker"]["environment"]

    assert environment["GLIGABAO_LOCAL_URL"] == "http://web:7878"
    assert environment["GLIGABAO_ALLOWED_HOSTS"].startswith("web,")


def test_image_runs_without_root_and_copies_what_exists():
    instructions = [line.split() for line in DOCKERFILE.splitlines() if line and line[0].isupper()]
    copied = [words[1] for words in instructions if words[0] == "COPY"]
    users = [words[1] for words in instructions if words[0] == "USER"]

    assert users == ["gligabao"]
    assert copied == ["pyproject.toml", "trainer_image/requirements.txt", "."]
    assert all((ROOT / name).exists() for name in copied)


def test_image_and_makefile_choose_the_same_torch():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    in_makefile = re.search(r"^TORCH \?= (\S+)$", makefile, re.MULTILINE).group(1)

    assert f'ARG TORCH="{in_makefile} ' in DOCKERFILE


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0"])
def test_web_can_listen_on_each_kind_of_address(host):
    with open_socket(host, 0) as listener:
        assert listener.getsockname()[1] > 0
