"""Each environment variable: its default, a value of one's own, and a value that cannot be."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
SETTINGS_FILE = ROOT / "gligabao" / "settings.py"
ENV_EXAMPLE = ROOT / ".env.example"

IN_DATA_DIR = object()  # the default depends on the data folder and is tested by itself

# variable, setting, default, a value, what the setting becomes
READ = [
    ("GLIGABAO_DEBUG", "DEBUG", False, "yes", True),
    ("GLIGABAO_SECRET_KEY", "SECRET_KEY", IN_DATA_DIR, "k" * 60, "k" * 60),
    ("GLIGABAO_SPEC_KEY", "SPEC_KEY", IN_DATA_DIR, "5e" * 32, "5e" * 32),
    ("GLIGABAO_PUBLIC_URL", "PUBLIC_URL", "", "https://a.example/", "https://a.example"),
    (
        "GLIGABAO_LOCAL_URL",
        "LOCAL_URL",
        "http://127.0.0.1:7878",
        "http://[::1]:1",
        "http://[::1]:1",
    ),
    (
        "GLIGABAO_ALLOWED_HOSTS",
        "ALLOWED_HOSTS",
        ["localhost", "127.0.0.1", "[::1]"],
        "a, b,",
        ["a", "b"],
    ),
    (
        "GLIGABAO_TRUSTED_ORIGINS",
        "CSRF_TRUSTED_ORIGINS",
        [],
        "https://a.example",
        ["https://a.example"],
    ),
    (
        "GLIGABAO_TRUST_PROXY",
        "SECURE_PROXY_SSL_HEADER",
        None,
        "true",
        ("HTTP_X_FORWARDED_PROTO", "https"),
    ),
    ("GLIGABAO_DATABASE_POOL", "DATABASE_POOL", 16, "3", 3),
    ("REDIS_URL", "CELERY_BROKER_URL", "files://localhost", "redis://h:1/2", "redis://h:1/2"),
    ("GLIGABAO_PROVIDER", "DEFAULT_PROVIDER", "local", "modal", "modal"),
    ("GLIGABAO_DEFAULT_MODEL", "DEFAULT_MODEL", "", "tiny", "tiny"),
    ("GLIGABAO_LOCAL_SLOTS", "LOCAL_SLOTS", 1, "4", 4),
    ("GLIGABAO_QUEUE_TIMEOUT_SECONDS", "QUEUE_TIMEOUT", 3600, "60", 60),
    ("GLIGABAO_MODELS_DIR", "MODELS_DIR", IN_DATA_DIR, "/models", Path("/models")),
    ("GLIGABAO_INFER_TIMEOUT_SECONDS", "INFER_TIMEOUT", 300, "7", 7),
    ("GLIGABAO_INFER_IDLE_SECONDS", "INFER_IDLE", 300, "7", 7),
    ("GLIGABAO_DATASETS_DIR", "DATASETS_DIR", IN_DATA_DIR, "/datasets", Path("/datasets")),
    ("GLIGABAO_MAX_ROW_BYTES", "MAX_ROW_BYTES", 8 * 2**20, "2048", 2048),
    ("GLIGABAO_MAX_UPLOAD_BYTES", "MAX_UPLOAD_BYTES", 8 * 2**30, "4096", 4096),
    ("GLIGABAO_MAX_STREAMS_PER_USER", "MAX_STREAMS_PER_USER", 100, "2", 2),
    ("GLIGABAO_LOG_LEVEL", "LOG_LEVEL", "INFO", "debug", "DEBUG"),
]
# Read into larger structures; each has a test of its own below.
READ_OTHERWISE = {"GLIGABAO_DATA_DIR", "DATABASE_URL", "GLIGABAO_DATABASES"}

REFUSED = [
    ("GLIGABAO_DEBUG", "perhaps"),
    ("GLIGABAO_TRUST_PROXY", "2"),
    ("GLIGABAO_PUBLIC_URL", "a.example"),
    ("GLIGABAO_PUBLIC_URL", "https://"),
    ("GLIGABAO_PUBLIC_URL", "https://a.example:port"),
    ("GLIGABAO_LOCAL_URL", "ftp://127.0.0.1"),
    ("GLIGABAO_DATABASE_POOL", "0"),
    ("REDIS_URL", "localhost:6379"),
    ("GLIGABAO_LOCAL_SLOTS", "0"),
    ("GLIGABAO_LOCAL_SLOTS", "two"),
    ("GLIGABAO_QUEUE_TIMEOUT_SECONDS", "-1"),
    ("GLIGABAO_INFER_TIMEOUT_SECONDS", "0"),
    ("GLIGABAO_INFER_IDLE_SECONDS", "1.5"),
    ("GLIGABAO_MAX_ROW_BYTES", "1023"),
    ("GLIGABAO_MAX_UPLOAD_BYTES", "8GB"),
    ("GLIGABAO_MAX_STREAMS_PER_USER", "0"),
    ("GLIGABAO_LOG_LEVEL", "LOUD"),
    ("GLIGABAO_DATABASES", "second"),
    ("GLIGABAO_DATABASES", "standard=sqlite:///a"),
    ("GLIGABAO_DATABASES", "default=sqlite:///a"),
    ("GLIGABAO_DATABASES", "a-b=sqlite:///a"),
]


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Reads the settings anew, with these variables and no others of ours."""
    for name in variables():
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)

    def make(**values):
        for name, value in ({"GLIGABAO_DATA_DIR": str(tmp_path)} | values).items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(SETTINGS_FILE))

    return make


def variables():
    """The names of all variables that settings.py reads."""
    calls = [
        node
        for node in ast.walk(ast.parse(SETTINGS_FILE.read_text()))
        if isinstance(node, ast.Call)
    ]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id.startswith("env_")
    }


def test_every_variable_that_is_read_is_tested_here():
    assert {row[0] for row in READ} | READ_OTHERWISE == variables()


@pytest.mark.parametrize(
    ("name", "setting", "default", "value", "expected"), READ, ids=[row[0] for row in READ]
)
def test_variable_has_a_default_and_can_be_set(read, name, setting, default, value, expected):
    if default is not IN_DATA_DIR:
        assert read().get(setting) == default

    assert read(**{name: value})[setting] == expected


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_bad_value_stops_the_start_and_names_the_variable(read, name, value):
    with pytest.raises(ImproperlyConfigured, match=name):
        read(**{name: value})


def test_empty_value_counts_as_unset(read):
    names = variables() - {"GLIGABAO_DATA_DIR"}
    plain = read()

    emptied = read(**dict.fromkeys(names, ""))

    for _, setting, *_ in READ:
        assert emptied.get(setting) == plain.get(setting), setting


def test_everything_is_written_under_the_data_folder(read, tmp_path):
    settings = read()

    assert settings["DATABASES"]["default"]["NAME"] == str(tmp_path / "gligabao.sqlite3")
    assert settings["MODELS_DIR"] == tmp_path / "base_models"
    assert settings["DATASETS_DIR"] == tmp_path / "datasets_training"
    folders = {name: path for name, path in settings.items() if name.endswith("_DIR")}
    outside = {name for name, path in folders.items() if not Path(path).is_relative_to(tmp_path)}
    assert outside == {"BASE_DIR"}


def test_data_folder_is_private(read, tmp_path):
    read(GLIGABAO_DATA_DIR=str(tmp_path / "new"))

    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_relative_data_folder_is_made_absolute(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert read(GLIGABAO_DATA_DIR="here")["DATA_DIR"] == tmp_path / "here"


def test_secrets_are_made_once_and_kept_private(read, tmp_path):
    first, again = read(), read()

    for name in ("SECRET_KEY", "SPEC_KEY", "INSTALLATION_ID"):
        assert first[name] == again[name]
        assert len(first[name]) >= 16
    for file in (tmp_path / "secrets").iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_secret_can_be_named_by_a_file(read, tmp_path):
    (tmp_path / "key").write_text("from-a-file\n")

    assert read(GLIGABAO_SECRET_KEY_FILE=str(tmp_path / "key"))["SECRET_KEY"] == "from-a-file"


def test_secret_file_that_is_missing_stops_the_start(read, tmp_path):
    with pytest.raises(ImproperlyConfigured, match="GLIGABAO_SPEC_KEY_FILE"):
        read(GLIGABAO_SPEC_KEY_FILE=str(tmp_path / "nothing"))


def test_secret_given_twice_stops_the_start(read, tmp_path):
    (tmp_path / "key").write_text("one")

    with pytest.raises(ImproperlyConfigured, match="both set"):
        read(GLIGABAO_SECRET_KEY="two", GLIGABAO_SECRET_KEY_FILE=str(tmp_path / "key"))


def test_https_address_makes_cookies_secure(read):
    assert read()["SESSION_COOKIE_SECURE"] is False
    assert read(GLIGABAO_PUBLIC_URL="https://a.example")["SESSION_COOKIE_SECURE"] is True


def test_databases_have_names_and_settings_of_their_kind(read):
    settings = read(
        DATABASE_URL="postgresql://u:p@h:1/d",
        GLIGABAO_DATABASES="second=sqlite:////tmp/second.sqlite3, third=postgresql://h/e",
        GLIGABAO_DATABASE_POOL="3",
    )

    assert list(settings["DATABASES"]) == ["default", "second", "third"]
    assert settings["DATABASES"]["default"]["OPTIONS"]["pool"]["max_size"] == 3
    assert settings["DATABASES"]["second"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert settings["DATABASES"]["third"]["HOST"] == "h"


@pytest.mark.parametrize("url", ["nonsense", "oracle9://u@h/d", "postgresql://u:geheim1@h:port/d"])
def test_bad_database_address_is_refused_without_repeating_it(read, url):
    with pytest.raises(ImproperlyConfigured) as refused:
        read(DATABASE_URL=url)

    assert "database address" in str(refused.value)
    assert "geheim1" not in str(refused.value)


def test_example_file_holds_every_default(read, tmp_path):
    lines = [
        line for line in ENV_EXAMPLE.read_text().splitlines() if line and not line.startswith("#")
    ]
    values = dict(line.split("=", 1) for line in lines)

    assert set(values) == variables()
    plain = read()
    example = read(**(values | {"GLIGABAO_DATA_DIR": str(tmp_path)}))
    for _, setting, *_ in READ:
        assert example.get(setting) == plain.get(setting), setting
    assert example["DATABASES"] == plain["DATABASES"]


@pytest.mark.parametrize(
    "values",
    [
        {"GLIGABAO_LOCAL_SLOTS": "none"},
        {"DATABASE_URL": "nonsense"},
        {"GLIGABAO_DATA_DIR": "/proc/nowhere"},
    ],
    ids=str,
)
def test_command_says_what_is_wrong_in_one_sentence(values, tmp_path):
    result = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PATH": "", "GLIGABAO_DATA_DIR": str(tmp_path)} | values,
        capture_output=True,
        text=True,
    )

    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
