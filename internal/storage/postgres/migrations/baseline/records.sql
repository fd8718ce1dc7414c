-- Which life of its Redis data a tenant was last seeded for; another one in Redis means that records were lost.
CREATE TABLE record_epochs (
  tenant_id text COLLATE "C" PRIMARY KEY,
  epoch text NOT NULL,
  seeded_at timestamptz NOT NULL
);

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

-- Records and locks of tenants whose `records.durability` is postgres. One row is a lock (record is null) or a record. `id`: 4 bytes that
-- are the same for a tenant, so that its rows are found through the primary key, then 12 of the SHA-256 of tenant, scope and key. Times are
-- milliseconds since the epoch by the clock of Postgres. A row is ignored from expires_at on. expires_on: the next day, at whose start
-- all rows of its partition have expired, as in the other tables with partitions.
-- A key has at most one row in all partitions: each transaction that writes one holds the advisory lock of the key.
-- A lock without a token is the mark of one that ended without its outcome. bytes_until: minute at whose start the
-- bytes are returned (see record_bytes).
CREATE TABLE record_entries (
  id uuid NOT NULL,
  expires_on date NOT NULL,
  expires_at bigint NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  held_until bigint NOT NULL,
  token text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  ttl_ms bigint NOT NULL,
  lock_ms bigint NOT NULL,
  taken_over boolean NOT NULL,
  waited boolean NOT NULL,
  attempt text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  bytes integer NOT NULL,
  bytes_until integer NOT NULL,
  record text COLLATE "C",
  PRIMARY KEY (id, expires_on)
) PARTITION BY RANGE (expires_on);

-- Meters of a tenant's locks and bytes. The values of a tenant are the sums over its stripes: concurrent batches use different stripes, so
-- that none waits for the commit of another; stripe 15 is for what is not a batch. minute: since the epoch; minute_before_locks,
-- month_before_locks: of the window before. month_others: locks of the month that Redis counted, as known then; the largest one counts.
-- generation: that of the tenant's record_store when Redis' count was read.
CREATE TABLE record_meters (
  tenant_id text COLLATE "C" NOT NULL,
  stripe smallint NOT NULL,
  fence bigint NOT NULL DEFAULT 0,
  minute integer NOT NULL DEFAULT 0,
  minute_locks bigint NOT NULL DEFAULT 0,
  minute_before_locks bigint NOT NULL DEFAULT 0,
  month integer NOT NULL DEFAULT 0,
  month_locks bigint NOT NULL DEFAULT 0,
  month_before_locks bigint NOT NULL DEFAULT 0,
  month_others bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  swept integer NOT NULL DEFAULT 0,
  generation integer NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, stripe)
) WITH (fillfactor = 50);

-- Bytes of entries by the minute at whose start they are returned.
CREATE TABLE record_bytes (
  tenant_id text COLLATE "C" NOT NULL,
  until integer NOT NULL,
  stripe smallint NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (tenant_id, until, stripe)
) WITH (fillfactor = 50);
CREATE INDEX record_bytes_until ON record_bytes (until);

-- Locks by hour. After two days they are moved to usage_hourly.
CREATE TABLE record_hours (
  tenant_id text COLLATE "C" NOT NULL,
  hour integer NOT NULL,
  stripe smallint NOT NULL,
  locks bigint NOT NULL,
  PRIMARY KEY (tenant_id, hour, stripe)
) WITH (fillfactor = 50);
CREATE INDEX record_hours_hour ON record_hours (hour);

-- The clock of records in microseconds since the epoch. A function of its own, so that tests can move it.
CREATE FUNCTION record_clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE FUNCTION record_day(ms bigint) RETURNS date LANGUAGE sql IMMUTABLE AS
$$ SELECT date '1970-01-01' + (ms / 86400000)::integer $$;

-- Months since January of 1970.
CREATE FUNCTION record_month(ms bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT ((extract(year FROM record_day(ms)) - 1970) * 12 + extract(month FROM record_day(ms)) - 1)::integer $$;

CREATE FUNCTION record_month_start(month integer) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT (timestamp '1970-01-01' + make_interval(months => month)) AT TIME ZONE 'UTC' $$;

-- The next fence above an earlier one and not before the clock. Its remainder by 16 is the stripe, so that batches that run at the same time
-- never give the same one; 15 is for Redis, where the tenant's records may be too.
CREATE FUNCTION record_fence(last bigint, micros bigint, stripe integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (greatest(last + 1, micros) - stripe + 15) / 16 * 16 + stripe $$;

-- A decision about one step, and what the lock history needs of it. What a kind of result does not name is null.
CREATE TYPE record_result AS (
  kind text,
  -- Whether the step changed the entry; not of a repeat.
  is_written boolean,
  -- Time of the decision.
  at_ms bigint,
  -- hit: the record; hit and long: its bytes; hit and saved: its partition.
  record text,
  record_bytes bigint,
  expires_on date,
  -- locked, extended, saved, removed: the lock's. elsewhere: the last fence of the tenant here.
  fence bigint,
  -- locked.
  token text,
  taken_over boolean,
  is_reentry boolean,
  -- locked, extended, busy: time until the lock is over.
  remaining_ms bigint,
  -- locked, elsewhere: fence of the lock that the step has ended, because it was over.
  ended_fence bigint,
  -- saved, removed: whether a caller waits for the end of the lock.
  wake boolean,
  -- limited: the limit that is reached, and the time until it may not be any more.
  limit_name text,
  retry_ms bigint,
  -- elsewhere: the mark that the key has here, the bytes of the tenant's other entries, and its locks of the minute.
  mark_fence bigint,
  fingerprint text,
  other_bytes bigint,
  minute_locks bigint
);

-- The meters of a tenant during a batch: totals over the stripes, and what the batch adds.
CREATE TYPE record_totals AS (
  fence bigint,
  minute integer,
  minute_locks bigint,
  month integer,
  month_locks bigint,
  month_others bigint,
  bytes bigint,
  swept integer,
  added_locks bigint,
  added_bytes bigint,
  generation integer,
  is_current boolean,
  is_refreshed boolean
);

-- Places a lock or record: when it expires, what it counts in bytes, and when these are returned.
CREATE FUNCTION place_record_entry(entry record_entries, expires_at bigint, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  entry.expires_at := expires_at;
  -- An entry stays in its partition unless it lives longer.
  entry.expires_on := greatest(entry.expires_on, record_day(expires_at) + 1);
  -- Bytes of entries of up to two hours are returned by the minute, of longer ones by the hour; never in a minute that was swept.
  entry.bytes_until := greatest(swept + 1, CASE WHEN expires_at - now_ms <= 7200000
    THEN expires_at / 60000 + 1 ELSE (expires_at / 3600000 + 1) * 60 END);
  entry.bytes := 256 + octet_length(entry.tenant_id) + octet_length(entry.scope) + octet_length(entry.key) + octet_length(entry.token)
    + octet_length(entry.attempt) + octet_length(entry.fingerprint) + coalesce(octet_length(entry.record), 0);
  RETURN entry;
END
$$;

-- Places a lock that is held until a time: its entry outlives it by its ttl, but at least a day and at most a week. Its partition also suits
-- the record that its holder saves, so that the save is an update in place.
CREATE FUNCTION place_record_lock(entry record_entries, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  entry.expires_on := greatest(entry.expires_on, record_day(greatest(entry.held_until, now_ms) + entry.ttl_ms) + 1);
  RETURN place_record_entry(entry, greatest(entry.held_until, now_ms) + least(greatest(entry.ttl_ms, 86400000), 604800000), now_ms, swept);
END
$$;

-- Replaces a lock by its mark. It expired at 0, so that a clock that goes back does not make a free key busy.
CREATE FUNCTION mark_record_lock(entry record_entries, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  entry.held_until := 0; entry.token := ''; entry.waited := false; entry.attempt := ''; entry.taken_over := true;
  RETURN place_record_lock(entry, now_ms, swept);
END
$$;

-- Runs steps on records and locks, one after another in the given order, in one transaction, and returns a result for each.
-- t_id: the tenants, each once, in ascending order. k_*: the keys, each once, in the order in which they are to be locked; k_tenant is an
-- index into t_id. s_*: the steps; s_key is an index into k_*. s_generation: how often the tenant's records have moved, as the caller knows:
-- another number means that the caller's view is old. The kinds of steps, and what they use of the other parameters:
--   acquire: token, ttl, lock, fingerprint, attempt, waits (0 or 1), the limits, inline_bytes_max (of a record in the result), earlier_fence,
--     ended_earlier
--   save: token, ttl (-1: the lock's), default_ttl (without a lock), record, earlier_fence
--   remove: token
--   extend: token, lock (-1: its first duration)
--   forget: mark_fence, of the mark that is removed
--   count: ttl, amount (of locks, within the limits as the caller has checked), record (what a repeat finds)
-- earlier_fence: the fence in the earlier store above which a lock is granted; -1 for none. ended_earlier: 1 if a lock of the key ended there
-- without its outcome. A text is '' for none, a limit Infinity for none.
CREATE FUNCTION run_record_steps(
  p_stripe integer, t_id text[],
  k_id text[], k_tenant double precision[], k_scope text[], k_key text[],
  s_key double precision[], s_kind text[], s_generation double precision[],
  s_token text[] DEFAULT '{}', s_ttl_ms double precision[] DEFAULT '{}', s_lock_ms double precision[] DEFAULT '{}',
  s_default_ttl_ms double precision[] DEFAULT '{}', s_amount double precision[] DEFAULT '{}',
  s_fingerprint text[] DEFAULT '{}', s_record text[] DEFAULT '{}', s_attempt text[] DEFAULT '{}', s_waits double precision[] DEFAULT '{}',
  s_locks_per_minute double precision[] DEFAULT '{}', s_locks_per_month double precision[] DEFAULT '{}',
  s_record_bytes_max double precision[] DEFAULT '{}', s_inline_bytes_max double precision[] DEFAULT '{}',
  s_earlier_fence double precision[] DEFAULT '{}', s_ended_earlier double precision[] DEFAULT '{}',
  s_mark_fence double precision[] DEFAULT '{}'
) RETURNS SETOF record_result LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  entries record_entries[] := array_fill(NULL::record_entries, ARRAY[cardinality(k_id)]);
  -- Partitions in which the entries were found, and which entries the batch changed or removed.
  found_on date[] := array_fill(NULL::date, ARRAY[cardinality(k_id)]);
  changed boolean[] := array_fill(false, ARRAY[cardinality(k_id)]);
  totals record_totals[];
  b_tenant integer[] := '{}'; b_until integer[] := '{}'; b_bytes bigint[] := '{}';
  micros bigint;
  locked integer;
  now_ms bigint;
  found record;
  before record_entries;
  entry record_entries;
  meter record_totals;
  result record_result;
  key_at integer;
  tenant_at integer;
BEGIN
  -- The statements below must see what was committed before their locks were granted.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'run_record_steps needs the isolation level read committed';
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_advisory_xact_lock(('x' || left(replace(u.id, '-', ''), 16))::bit(64)::bigint)
  FROM unnest(k_id) AS u (id);
  PERFORM FROM record_meters AS own WHERE own.tenant_id = ANY (t_id) AND own.stripe = p_stripe ORDER BY own.tenant_id FOR UPDATE;
  GET DIAGNOSTICS locked = ROW_COUNT;
  IF locked < cardinality(t_id) THEN
    -- Only an existing row can be locked: without one, two batches of this stripe would give the same fences.
    INSERT INTO record_meters (tenant_id, stripe)
    SELECT own.id, p_stripe FROM tenants AS own WHERE own.id = ANY (t_id) AND own.deleted_at IS NULL ORDER BY own.id
    ON CONFLICT DO NOTHING;
    PERFORM FROM record_meters AS own WHERE own.tenant_id = ANY (t_id) AND own.stripe = p_stripe ORDER BY own.tenant_id FOR UPDATE;
  END IF;
  -- After the locks are granted, so that times of a key never go back from one transaction to the next.
  micros := record_clock();
  now_ms := micros / 1000;

  FOR found IN
    SELECT u.n, max(own.fence) AS fence, greatest(max(own.minute), now_ms / 60000)::integer AS minute, max(own.month) AS month,
      sum(own.bytes)::bigint AS bytes, max(own.swept) AS swept, max(own.generation) AS generation
    FROM unnest(t_id) WITH ORDINALITY AS u (id, n) LEFT JOIN record_meters AS own ON own.tenant_id = u.id GROUP BY u.n ORDER BY u.n
  LOOP
    meter.fence := coalesce(found.fence, 0);
    meter.minute := found.minute;
    meter.month := greatest(found.month, record_month(now_ms));
    meter.bytes := coalesce(found.bytes, 0);
    meter.swept := coalesce(found.swept, found.minute);
    SELECT coalesce(sum(own.minute_locks) FILTER (WHERE own.minute = meter.minute), 0),
      coalesce(sum(own.month_locks) FILTER (WHERE own.month = meter.month), 0),
      coalesce(max(own.month_others) FILTER (WHERE own.month = meter.month), 0)
    INTO meter.minute_locks, meter.month_locks, meter.month_others FROM record_meters AS own WHERE own.tenant_id = t_id[found.n];
    SELECT own.record_store_generation, own.record_store = 'postgres' INTO meter.generation, meter.is_current
    FROM tenants AS own WHERE own.id = t_id[found.n] AND own.deleted_at IS NULL;
    meter.added_locks := 0;
    meter.added_bytes := 0;
    -- Once a minute and after a move. Not for a deleted tenant, whose purge may have finished.
    meter.is_refreshed := meter.generation IS NOT NULL
      AND (found.swept IS NULL OR meter.swept < meter.minute OR found.generation <> meter.generation);
    IF meter.is_refreshed THEN
      WITH gone AS (
        DELETE FROM record_bytes AS own WHERE own.tenant_id = t_id[found.n] AND own.until <= meter.minute RETURNING own.bytes
      ) SELECT -coalesce(sum(gone.bytes), 0) INTO meter.added_bytes FROM gone;
      meter.bytes := meter.bytes + meter.added_bytes;
      meter.swept := meter.minute;
      SELECT greatest(meter.month_others, coalesce(sum(u.amount), 0)) INTO meter.month_others FROM usage_hourly AS u
      WHERE u.tenant_id = t_id[found.n] AND u.meter = 'locks' AND u.hour >= record_month_start(meter.month);
    END IF;
    meter.month_locks := meter.month_locks + meter.month_others;
    totals[found.n] := meter;
  END LOOP;

  -- A key has at most one row: a new entry replaces also an expired one, which would otherwise be valid again if the clock went back.
  FOR found IN
    SELECT u.n, own.expires_on, CASE WHEN own.expires_at > now_ms THEN own END AS valid
    FROM unnest(k_id::uuid[]) WITH ORDINALITY AS u (id, n) JOIN record_entries AS own ON own.id = u.id
  LOOP
    entries[found.n] := found.valid;
    found_on[found.n] := found.expires_on;
  END LOOP;

  FOR step IN 1 .. cardinality(s_key) LOOP
    key_at := s_key[step];
    tenant_at := k_tenant[key_at];
    meter := totals[tenant_at];
    before := entries[key_at];
    entry := before;
    result := NULL;
    result.is_written := false;
    result.at_ms := now_ms;
    IF before.id IS NULL THEN
      entry.id := k_id[key_at]; entry.tenant_id := t_id[tenant_at]; entry.scope := k_scope[key_at]; entry.key := k_key[key_at];
      entry.held_until := 0; entry.token := ''; entry.attempt := ''; entry.fingerprint := ''; entry.waited := false; entry.taken_over := false;
      entry.ttl_ms := 0; entry.lock_ms := 0;
    END IF;

    CASE
    WHEN meter.generation IS DISTINCT FROM s_generation[step]::integer THEN
      result.kind := 'moved';

    WHEN before.id IS NULL AND NOT meter.is_current
      AND (s_kind[step] IN ('acquire', 'count') OR (s_kind[step] = 'save' AND s_token[step] = '')) THEN
      result.kind := 'elsewhere';

    WHEN s_kind[step] = 'acquire' THEN
      IF entry.fingerprint <> '' AND s_fingerprint[step] <> '' AND entry.fingerprint <> s_fingerprint[step] THEN
        result.kind := 'mismatch';
      ELSIF before.record IS NOT NULL THEN
        result.kind := CASE WHEN octet_length(before.record) > s_inline_bytes_max[step] THEN 'long' ELSE 'hit' END;
        result.record_bytes := octet_length(before.record);
        IF result.kind = 'hit' THEN result.record := before.record; result.expires_on := before.expires_on; END IF;
      ELSE
        entry.held_until := now_ms + s_lock_ms[step]; entry.ttl_ms := s_ttl_ms[step]; entry.lock_ms := s_lock_ms[step];
        entry.attempt := s_attempt[step];
        IF s_fingerprint[step] <> '' THEN entry.fingerprint := s_fingerprint[step]; END IF;
        IF before.token = s_token[step] OR (before.token <> '' AND before.attempt <> '' AND before.attempt = s_attempt[step]) THEN
          entry := place_record_lock(entry, now_ms, meter.swept);
          -- A re-entry is never refused, so it must not exceed the limit: it keeps the earlier fingerprint and attempt id.
          IF entry.bytes > before.bytes AND meter.bytes + entry.bytes - before.bytes > s_record_bytes_max[step] THEN
            entry.fingerprint := before.fingerprint; entry.attempt := before.attempt;
            entry := place_record_lock(entry, now_ms, meter.swept);
          END IF;
          result.kind := 'locked'; result.is_reentry := true;
        ELSIF before.held_until > now_ms THEN
          result.kind := 'busy';
          result.remaining_ms := before.held_until - now_ms;
          entry := before;
          entry.waited := entry.waited OR s_waits[step] = 1;
          IF entry.waited IS DISTINCT FROM before.waited THEN entries[key_at] := entry; changed[key_at] := true; END IF;
        ELSIF NOT meter.is_current THEN
          result.kind := 'elsewhere';
          IF before.token <> '' THEN
            entry := mark_record_lock(before, now_ms, meter.swept);
            result.is_written := true; result.ended_fence := before.fence;
          END IF;
        ELSIF meter.minute_locks >= s_locks_per_minute[step] THEN
          result.kind := 'limited'; result.limit_name := 'locksPerMinute'; result.retry_ms := (meter.minute + 1) * 60000::bigint - now_ms;
        ELSIF meter.month_locks >= s_locks_per_month[step] THEN
          result.kind := 'limited'; result.limit_name := 'locksPerMonth';
          result.retry_ms := (extract(epoch FROM record_month_start(meter.month + 1)) * 1000)::bigint - now_ms;
        ELSE
          entry.token := s_token[step];
          entry.taken_over := before.id IS NOT NULL OR s_ended_earlier[step] = 1;
          entry := place_record_lock(entry, now_ms, meter.swept);
          IF meter.bytes + entry.bytes - coalesce(before.bytes, 0) > s_record_bytes_max[step] THEN
            result.kind := 'limited'; result.limit_name := 'recordBytes'; result.retry_ms := (meter.minute + 1) * 60000::bigint - now_ms;
          ELSE
            result.kind := 'locked'; result.is_reentry := false;
            IF before.token <> '' THEN result.ended_fence := before.fence; END IF;
            entry.fence := record_fence(greatest(meter.fence, before.fence, s_earlier_fence[step]::bigint), micros, p_stripe);
            meter.fence := entry.fence;
            meter.added_locks := meter.added_locks + 1; meter.minute_locks := meter.minute_locks + 1; meter.month_locks := meter.month_locks + 1;
          END IF;
        END IF;
        IF result.kind = 'locked' THEN
          result.is_written := true; result.token := entry.token; result.fence := entry.fence;
          result.remaining_ms := entry.lock_ms; result.taken_over := entry.taken_over;
        END IF;
      END IF;

    WHEN s_kind[step] = 'save' THEN
      IF before.record IS NOT NULL THEN
        result.kind := CASE WHEN s_token[step] <> '' AND s_token[step] <> before.token THEN 'lost'
          WHEN before.record = s_record[step] THEN 'saved' ELSE 'exists' END;
        result.fence := before.fence;
      ELSIF s_token[step] <> '' AND s_token[step] IS DISTINCT FROM before.token THEN
        result.kind := 'lost';
      ELSIF entry.token = '' AND NOT meter.is_current THEN
        result.kind := 'elsewhere';
      ELSE
        IF entry.token = '' THEN
          entry.fence := record_fence(greatest(meter.fence, before.fence, s_earlier_fence[step]::bigint), micros, p_stripe);
          meter.fence := entry.fence;
          meter.added_locks := meter.added_locks + 1; meter.minute_locks := meter.minute_locks + 1; meter.month_locks := meter.month_locks + 1;
        END IF;
        entry.record := s_record[step];
        result.kind := 'saved'; result.is_written := true; result.fence := entry.fence; result.wake := entry.waited;
        entry := place_record_entry(entry, now_ms + coalesce(nullif(s_ttl_ms[step], -1), before.ttl_ms, s_default_ttl_ms[step])::bigint,
          now_ms, meter.swept);
        result.expires_on := entry.expires_on;
      END IF;

    WHEN s_kind[step] = 'remove' THEN
      result.kind := 'removed';
      IF before.record IS NOT NULL AND s_token[step] = '' THEN
        result.is_written := true; entry := NULL;
      ELSIF before.record IS NULL AND s_token[step] <> '' AND s_token[step] = before.token THEN
        result.is_written := true; result.fence := before.fence; result.wake := before.waited;
        IF before.taken_over THEN
          entry := mark_record_lock(entry, now_ms, meter.swept);
        ELSE
          entry := NULL;
        END IF;
      END IF;

    WHEN s_kind[step] = 'extend' THEN
      IF before.record IS NOT NULL OR before.token IS DISTINCT FROM s_token[step] THEN
        result.kind := 'lost';
      ELSE
        entry.held_until := now_ms + least(coalesce(nullif(s_lock_ms[step], -1), entry.lock_ms), entry.ttl_ms)::bigint;
        entry := place_record_lock(entry, now_ms, meter.swept);
        result.kind := 'extended'; result.is_written := true; result.fence := entry.fence;
        result.remaining_ms := entry.held_until - now_ms;
      END IF;

    WHEN s_kind[step] = 'forget' THEN
      result.kind := 'removed';
      IF before.record IS NULL AND before.token = '' AND before.fence = s_mark_fence[step]::bigint THEN
        result.is_written := true; entry := NULL;
      END IF;

    WHEN s_kind[step] = 'count' THEN
      IF before.record IS NOT NULL THEN
        result.kind := 'known';
      ELSE
        meter.added_locks := meter.added_locks + s_amount[step]::bigint;
        meter.minute_locks := meter.minute_locks + s_amount[step]::bigint; meter.month_locks := meter.month_locks + s_amount[step]::bigint;
        entry.fence := 0; entry.record := s_record[step];
        entry := place_record_entry(entry, now_ms + s_ttl_ms[step]::bigint, now_ms, meter.swept);
        result.kind := 'counted'; result.is_written := true;
      END IF;
    END CASE;

    IF result.kind = 'elsewhere' THEN
      result.fence := greatest(meter.fence, before.fence);
      result.other_bytes := meter.bytes - coalesce(before.bytes, 0);
      result.minute_locks := meter.minute_locks;
      result.mark_fence := before.fence;
      result.fingerprint := before.fingerprint;
    END IF;
    IF result.is_written THEN
      -- Bytes of a minute that was swept are returned already.
      IF before.bytes_until > meter.swept THEN
        b_tenant := b_tenant || tenant_at; b_until := b_until || before.bytes_until; b_bytes := b_bytes || -before.bytes::bigint;
        meter.bytes := meter.bytes - before.bytes; meter.added_bytes := meter.added_bytes - before.bytes;
      END IF;
      IF entry.id IS NOT NULL THEN
        b_tenant := b_tenant || tenant_at; b_until := b_until || entry.bytes_until; b_bytes := b_bytes || entry.bytes::bigint;
        meter.bytes := meter.bytes + entry.bytes; meter.added_bytes := meter.added_bytes + entry.bytes;
      END IF;
      entries[key_at] := entry; changed[key_at] := true; totals[tenant_at] := meter;
    END IF;
    RETURN NEXT result;
  END LOOP;

  DELETE FROM record_entries AS own
  USING unnest(k_id::uuid[], found_on, changed) WITH ORDINALITY AS u (id, found_on, changed, n)
  WHERE u.changed AND u.found_on IS NOT NULL AND own.id = u.id AND own.expires_on = u.found_on
    AND u.found_on IS DISTINCT FROM (entries[u.n]).expires_on;
  BEGIN
    INSERT INTO record_entries AS own
    SELECT u.id, u.expires_on, u.expires_at, u.tenant_id, u.scope, u.key, u.held_until, u.token, u.fence,
      u.ttl_ms, u.lock_ms, u.taken_over, u.waited, u.attempt, u.fingerprint, u.bytes, u.bytes_until, u.record
    FROM unnest(entries) WITH ORDINALITY AS u (id, expires_on, expires_at, tenant_id, scope, key, held_until, token, fence, ttl_ms, lock_ms,
      taken_over, waited, attempt, fingerprint, bytes, bytes_until, record, n)
    WHERE changed[u.n] AND u.id IS NOT NULL
    ON CONFLICT (id, expires_on) DO UPDATE SET (expires_at, held_until, token, fence, ttl_ms, lock_ms, taken_over, waited, attempt,
      fingerprint, bytes, bytes_until, record) = (excluded.expires_at, excluded.held_until, excluded.token, excluded.fence, excluded.ttl_ms,
      excluded.lock_ms, excluded.taken_over, excluded.waited, excluded.attempt, excluded.fingerprint, excluded.bytes, excluded.bytes_until,
      excluded.record);
  EXCEPTION WHEN check_violation THEN
    -- The detail has the days of all entries to write, so that the caller can create all missing partitions at once.
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'a partition of record_entries is missing', DETAIL =
      (SELECT string_agg(DISTINCT (entries[n]).expires_on::text, ' ') FROM generate_subscripts(entries, 1) AS n WHERE changed[n]);
  END;

  INSERT INTO record_bytes AS own
  SELECT t_id[u.tenant], u.until, p_stripe, sum(u.bytes) FROM unnest(b_tenant, b_until, b_bytes) AS u (tenant, until, bytes)
  GROUP BY u.tenant, u.until HAVING sum(u.bytes) <> 0 ORDER BY u.tenant, u.until
  ON CONFLICT (tenant_id, until, stripe) DO UPDATE SET bytes = own.bytes + excluded.bytes;
  INSERT INTO record_hours AS own
  SELECT t_id[u.n], micros / 3600000000, p_stripe, u.added_locks
  FROM unnest(totals) WITH ORDINALITY AS u (fence, minute, minute_locks, month, month_locks, month_others, bytes, swept, added_locks,
    added_bytes, generation, is_current, is_refreshed, n)
  WHERE u.added_locks > 0
  ON CONFLICT (tenant_id, hour, stripe) DO UPDATE SET locks = own.locks + excluded.locks;
  INSERT INTO record_meters AS own
  SELECT t_id[u.n], p_stripe, u.fence, u.minute, u.added_locks, 0, u.month, u.added_locks, 0, u.month_others, u.added_bytes, u.swept,
    u.generation
  FROM unnest(totals) WITH ORDINALITY AS u (fence, minute, minute_locks, month, month_locks, month_others, bytes, swept, added_locks,
    added_bytes, generation, is_current, is_refreshed, n)
  WHERE u.added_locks > 0 OR u.added_bytes <> 0 OR u.is_refreshed
  ON CONFLICT (tenant_id, stripe) DO UPDATE SET fence = excluded.fence, bytes = own.bytes + excluded.bytes, swept = excluded.swept,
    generation = excluded.generation, month_others = excluded.month_others,
    minute = excluded.minute, minute_locks = CASE WHEN own.minute = excluded.minute THEN own.minute_locks ELSE 0 END + excluded.minute_locks,
    minute_before_locks = CASE excluded.minute - own.minute WHEN 0 THEN own.minute_before_locks WHEN 1 THEN own.minute_locks ELSE 0 END,
    month = excluded.month, month_locks = CASE WHEN own.month = excluded.month THEN own.month_locks ELSE 0 END + excluded.month_locks,
    month_before_locks = CASE excluded.month - own.month WHEN 0 THEN own.month_before_locks WHEN 1 THEN own.month_locks ELSE 0 END;
END
$$;
