-- Calls that were refused, for tenants to see why. sample: at most 1 KiB of a body whose signature failed.
CREATE TABLE refused_calls (
  id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  provider text NOT NULL,
  cause text NOT NULL,
  refused_at timestamptz NOT NULL,
  source_address text,
  headers text NOT NULL,
  sample text,
  PRIMARY KEY (id, expires_on)
) PARTITION BY RANGE (expires_on);
CREATE INDEX refused_calls_tenant ON refused_calls (tenant_id, id);
