-- SPDX-License-Identifier: Apache-2.0
-- +goose Up
CREATE TABLE keys (
	id        TEXT PRIMARY KEY,
	tenant    TEXT NOT NULL,
	name      TEXT NOT NULL,
	hash      TEXT NOT NULL,
	about     TEXT NOT NULL, -- JSON: scopes, policy, images, quota
	created   BIGINT NOT NULL,
	expires   BIGINT NOT NULL,
	revoked   BIGINT NOT NULL,
	last_used BIGINT NOT NULL
);
CREATE INDEX keys_by_tenant ON keys (tenant, created, id);

CREATE TABLE executions (
	id      TEXT PRIMARY KEY,
	tenant  TEXT NOT NULL,
	api_key TEXT NOT NULL,
	status  TEXT NOT NULL,
	created BIGINT NOT NULL,
	record  TEXT NOT NULL -- JSON
);
CREATE INDEX executions_by_tenant ON executions (tenant, created, id);
CREATE INDEX executions_by_age ON executions (created);

CREATE TABLE code (
	execution TEXT PRIMARY KEY,
	tenant    TEXT NOT NULL,
	created   BIGINT NOT NULL,
	source    TEXT NOT NULL
);
CREATE INDEX code_by_tenant ON code (tenant);
CREATE INDEX code_by_age ON code (created);

CREATE TABLE sandboxes (
	id      TEXT PRIMARY KEY,
	tenant  TEXT NOT NULL,
	api_key TEXT NOT NULL,
	state   TEXT NOT NULL,
	created BIGINT NOT NULL,
	ended   BIGINT NOT NULL,
	record  TEXT NOT NULL -- JSON
);
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);
CREATE INDEX sandboxes_by_age ON sandboxes (ended);

CREATE TABLE events (
	id      TEXT PRIMARY KEY,
	tenant  TEXT NOT NULL,
	api_key TEXT NOT NULL,
	at      BIGINT NOT NULL,
	action  TEXT NOT NULL,
	target  TEXT NOT NULL
);
CREATE INDEX events_by_tenant ON events (tenant, at, id);
CREATE INDEX events_by_age ON events (at);

CREATE TABLE usage (
	tenant         TEXT NOT NULL,
	day            TEXT NOT NULL, -- 2026-11-29, UTC
	runs           BIGINT NOT NULL,
	cpu_micros     BIGINT NOT NULL,
	memory_seconds BIGINT NOT NULL, -- MiB times seconds
	stored_bytes   BIGINT NOT NULL,
	tokens         BIGINT NOT NULL,
	PRIMARY KEY (tenant, day)
);

CREATE TABLE answers (
	tenant  TEXT NOT NULL,
	name    TEXT NOT NULL, -- the Idempotency-Key
	request TEXT NOT NULL, -- the hash of the request
	answer  TEXT NOT NULL, -- empty while the first request is under way
	created BIGINT NOT NULL,
	PRIMARY KEY (tenant, name)
);
CREATE INDEX answers_by_age ON answers (created);
