-- SPDX-License-Identifier: Apache-2.0
-- +goose Up
ALTER TABLE executions ADD COLUMN summary TEXT NOT NULL DEFAULT ''; -- JSON: the record without what was printed and shown
ALTER TABLE executions ADD COLUMN stored BIGINT NOT NULL DEFAULT 0; -- bytes in the bucket
CREATE TABLE identity (id TEXT NOT NULL); -- one row: whose the bucket is
