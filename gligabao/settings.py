"""All Django settings, read from the environment. Every default works on a laptop."""

from __future__ import annotations

import secrets
from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from gligabao.env import (
    env_bool,
    env_choice,
    env_int,
    env_list,
    env_path,
    env_seconds,
    env_secret,
    env_str,
    env_url,
)
from gligabao.secret_files import secret_file

BASE_DIR = Path(__file__).resolve().parent.parent

# Everything that gligabao writes lies under this folder.
DATA_DIR = env_path("GLIGABAO_DATA_DIR", default=BASE_DIR / "data")
TEMP_DIR = DATA_DIR / "tmp"
for folder in (DATA_DIR, TEMP_DIR):
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The folder {folder} cannot be made: {error.strerror}. "
            "Set GLIGABAO_DATA_DIR to a folder that you can write."
        ) from error
SECRETS_DIR = DATA_DIR / "secrets"

DEBUG = env_bool("GLIGABAO_DEBUG", default=False)
SECRET_KEY = env_secret("GLIGABAO_SECRET_KEY") or secret_file(
    SECRETS_DIR / "secret_key", lambda: secrets.token_urlsafe(50)
)
# Signs what a trainer runs; a container runs only what its control plane signed.
SPEC_KEY = env_secret("GLIGABAO_SPEC_KEY") or secret_file(
    SECRETS_DIR / "spec_key", lambda: secrets.token_hex(32)
)
# Tells our provider runs from those of other installations.
INSTALLATION_ID = secret_file(SECRETS_DIR / "installation_id", lambda: secrets.token_hex(8))

# --- Addresses -------------------------------------------------------------------------------
PUBLIC_URL = env_url("GLIGABAO_PUBLIC_URL")
# Where a trainer on this machine finds the web process; `manage.py up` sets it.
LOCAL_URL = env_url("GLIGABAO_LOCAL_URL", default="http://127.0.0.1:7878")
ALLOWED_HOSTS = env_list("GLIGABAO_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env_list("GLIGABAO_TRUSTED_ORIGINS")
if env_bool("GLIGABAO_TRUST_PROXY", default=False):
    # Only behind a proxy that always sets the header itself; a client could send it too.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
IS_HTTPS = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = IS_HTTPS
CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# --- Apps ------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_eventstream",
    "gligabao",
    "datasets",
    "training",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "gligabao.security.ContentSecurityPolicyMiddleware",
    "gligabao.compression.PageCompressionMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "gligabao.languages.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gligabao.databases.DatabaseMiddleware",
    "gligabao.outages.OutageMiddleware",
]

ROOT_URLCONF = "gligabao.urls"
ASGI_APPLICATION = "gligabao.asgi.application"
WSGI_APPLICATION = "gligabao.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "gligabao.console.pages.page_context",
            ],
        },
    },
]

# --- Databases -------------------------------------------------------------------------------
SQLITE_OPTIONS = {
    # IMMEDIATE is what removes "database is locked": a transaction that reads and then writes
    # would otherwise fail at once, whatever the timeout.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}

DATABASE_POOL = env_int("GLIGABAO_DATABASE_POOL", default=16, minimum=1)


def _database(url: str) -> dict:
    """Django's settings for one database address, with ours for its kind."""
    try:
        config = dict(dj_database_url.parse(url))
    except (ValueError, dj_database_url.ParseError, dj_database_url.UnknownSchemeError) as error:
        raise ImproperlyConfigured(
            "A database address cannot be read. Use sqlite:///path or "
            "postgresql://user:password@host:port/name."
        ) from error
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config["OPTIONS"] = SQLITE_OPTIONS
    else:
        # Under ASGI each request has a thread of its own, so that persistent connections
        # would pile up; a pool bounds them.
        config["CONN_MAX_AGE"] = 0
        config["OPTIONS"] = {
            # Of a server that is away a request, or the sweep, hears within `timeout` seconds.
            "pool": {"min_size": 1, "max_size": DATABASE_POOL, "timeout": 5},
            "connect_timeout": 5,
        }
    return config


def _databases() -> dict[str, dict]:
    databases = {
        "default": _database(
            env_secret("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'gligabao.sqlite3'}")
        )
    }
    for entry in env_list("GLIGABAO_DATABASES"):
        name, separator, url = entry.partition("=")
        if not separator or not name.isidentifier() or name in {"default", "standard"}:
            raise ImproperlyConfigured(
                f"GLIGABAO_DATABASES: {name!r} is not a usable name. Use name=url, name=url, ..."
            )
        databases[name] = _database(url)
    return databases


DATABASES = _databases()
DATABASE_ROUTERS = ["gligabao.databases.Router"]

# --- Redis and Celery ------------------------------------------------------------------------
REDIS_URL = env_secret("REDIS_URL")
if REDIS_URL and not REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
    raise ImproperlyConfigured("REDIS_URL cannot be read. Use redis://host:port/number.")
CACHES = {
    "default": (
        {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
        if REDIS_URL
        else {
            "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
            "LOCATION": DATA_DIR / "cache",
        }
    )
}
BROKER_DIR = DATA_DIR / "broker"
CELERY_BROKER_URL = REDIS_URL or "files://localhost"  # see gligabao/file_queue.py
CELERY_BROKER_TRANSPORT_OPTIONS = (
    # Without the throttle, a task that a killed worker held comes back only after 100 s.
    {"visibility_timeout": 3600, "unacked_restore_throttle": 1, "socket_timeout": 5}
    if REDIS_URL
    else {
        # One folder for both directions: what a producer puts is what a worker takes.
        "data_folder_in": str(BROKER_DIR / "queue"),
        "data_folder_out": str(BROKER_DIR / "queue"),
        "control_folder": str(BROKER_DIR / "control"),
        "polling_interval": 0.1,
    }
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_TIME_LIMIT = 3600
CELERY_BEAT_SCHEDULER = "gligabao.beat:SteadyScheduler"
CELERY_BEAT_SCHEDULE = {
    # The sweep is what moves every job. A tick that waited is worthless: the next one does
    # the same work.
    "training.sweep": {"task": "training.sweep", "schedule": 1.0, "options": {"expires": 5}},
}

# --- Jobs ------------------------------------------------------------------------------------
DEFAULT_PROVIDER = env_str("GLIGABAO_PROVIDER", default="local")
DEFAULT_MODEL = env_str("GLIGABAO_DEFAULT_MODEL")
LOCAL_SLOTS = env_int("GLIGABAO_LOCAL_SLOTS", default=1, minimum=1)
QUEUE_TIMEOUT = env_seconds("GLIGABAO_QUEUE_TIMEOUT_SECONDS", default=3600)
MODELS_DIR = env_path("GLIGABAO_MODELS_DIR", default=DATA_DIR / "base_models")
JOBS_DIR = DATA_DIR / "jobs"
SLOTS_DIR = DATA_DIR / "slots"

# --- Inference -------------------------------------------------------------------------------
INFER_TIMEOUT = env_seconds("GLIGABAO_INFER_TIMEOUT_SECONDS", default=300)
INFER_IDLE = env_seconds("GLIGABAO_INFER_IDLE_SECONDS", default=300)
INFER_DIR = DATA_DIR / "infer"

# --- Files -----------------------------------------------------------------------------------
DATASETS_DIR = env_path("GLIGABAO_DATASETS_DIR", default=DATA_DIR / "datasets_training")
DATASET_VERSIONS_DIR = DATA_DIR / "dataset_versions"
MAX_ROW_BYTES = env_int("GLIGABAO_MAX_ROW_BYTES", default=8 * 2**20, minimum=1024)
MAX_UPLOAD_BYTES = env_int("GLIGABAO_MAX_UPLOAD_BYTES", default=8 * 2**30, minimum=1024)
ARTIFACTS_DIR = DATA_DIR / "artifacts"
UPLOAD_URL_SECONDS = 900
FILE_UPLOAD_TEMP_DIR = str(TEMP_DIR)
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]
# Bodies other than uploads; enforced before a byte of them is read (see gligabao/asgi.py).
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "gligabao.static_files.StaticFiles"},
}
# Of two compressed forms the smaller would be sent; gzip is the one that every client knows.
SERVESTATIC_USE_BROTLI = False
SERVESTATIC_USE_ZSTD = False
SERVESTATIC_ALLOW_ALL_ORIGINS = False

# --- Access ----------------------------------------------------------------------------------
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/console/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
REST_KNOX = {
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_TTL": None,  # until it is revoked
    "AUTO_REFRESH": False,
}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        # First, so that a missing login is a 401 and not a 403.
        "gligabao.rest.BearerAuthentication",
        "gligabao.rest.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["gligabao.access.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["gligabao.rest.StrictJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["gligabao.rest.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "gligabao.rest.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%SZ",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "gligabao",
    "DESCRIPTION": "Fine-tune open language models, watch every step, use the result.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {
        "JobStatus": "training.states.JobStatus",
        "DatasetStatus": "datasets.models.DatasetStatus",
        "StopStatus": ["stopping", "cancelled"],
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "gligabao.schema.add_feed",
    ],
    # The page's scripts come with a package; nothing is loaded from a CDN.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# --- The live feed ---------------------------------------------------------------------------
MAX_STREAMS_PER_USER = env_int("GLIGABAO_MAX_STREAMS_PER_USER", default=100, minimum=1)
EVENTSTREAM_CHANNELMANAGER_CLASS = "training.feed.channels.ChannelManager"

# --- Time and logs ---------------------------------------------------------------------------
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "gligabao" / "locale"]
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_AGE = 365 * 86400
LANGUAGE_COOKIE_SECURE = IS_HTTPS
LOG_LEVEL = env_choice(
    "GLIGABAO_LOG_LEVEL",
    default="INFO",
    choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"secrets": {"()": "gligabao.secrets_filter.SecretsFilter"}},
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["secrets"],
        },
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django_eventstream": {"level": "WARNING"},  # it tells of every stream that opens
        "kombu": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "uvicorn.error": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
