-- The history of locks, for people who ask what happened: no decision rests on it. fence is the lock's fencing token, which is also
-- the moment of its acquisition in microseconds of Redis' clock, so that the primary key is the order of a tenant's history.
-- A lock's beginning and its end come from any process and in any order, and each alone makes a row. held_until and extended_at
-- belong together, of the latest extension; ended_at, ending and status too, of the earliest end.
-- ending: open, completed (then with the saved response's status), released, taken_over.
CREATE TABLE executions (
  tenant_id text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  expires_on date NOT NULL,
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  held_until timestamptz,
  extended_at timestamptz,
  ended_at timestamptz,
  ending text COLLATE "C" NOT NULL,
  status smallint,
  PRIMARY KEY (tenant_id, fence, expires_on)
) PARTITION BY RANGE (expires_on);
CREATE INDEX executions_key ON executions (tenant_id, scope, key, fence);
-- Most complete; whoever looks for the others must not pass by all of those.
CREATE INDEX executions_uncompleted ON executions (tenant_id, ending, fence) WHERE ending <> 'completed';
