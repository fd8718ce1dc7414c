-- One row that counts changes of settings. It is raised inside each writing transaction, whose row lock lasts until the commit:
-- writers go one after the other, and a reader that sees another number than its own reads all settings again.
CREATE TABLE settings_version (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version bigint NOT NULL
);
INSERT INTO settings_version (version) VALUES (0);

-- Runtime settings that were set; one that is not here has its default. tenant_id: '' for the whole installation.
-- version: what settings_version was raised to by the write, so that no two writes share one.
CREATE TABLE settings (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value jsonb NOT NULL,
  version bigint NOT NULL,
  updated_at timestamptz NOT NULL,
  updated_by text NOT NULL,
  PRIMARY KEY (tenant_id, name)
);
