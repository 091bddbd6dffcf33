# The control plane: web, worker and beat share this image. With TRAINER=no it comes without
# torch, and then neither trains nor generates by itself.
FROM python:3.12-slim

ARG TRAINER=yes
ARG TORCH="torch==2.13.0 --extra-index-url https://download.pytorch.org/whl/cpu"

ENV PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    GLIGABAO_DATA_DIR=/data \
    PYTHONPATH=/app

RUN useradd --uid 10001 --create-home gligabao && install -d -o gligabao -m 700 /data
WORKDIR /app

# Only what pyproject.toml lists: the project is never installed as a package.
COPY pyproject.toml ./
COPY trainer_image/requirements.txt trainer_image/
RUN python -c 'import tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
print(*project["dependencies"], sep="\n")' > /tmp/requirements.txt \
    && pip install -r /tmp/requirements.txt \
    && if [ "$TRAINER" = yes ]; then pip install $TORCH -r trainer_image/requirements.txt; fi

COPY . .
USER gligabao
VOLUME /data
EXPOSE 7878
CMD ["python", "-P", "-m", "gligabao.web", "--host", "0.0.0.0"]
