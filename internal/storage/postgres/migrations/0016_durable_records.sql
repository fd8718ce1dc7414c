-- Where new records and locks of a tenant are written. record_store_before: the store that had them before and may still have some; null once
-- it has none. The generation grows with every move. record_fence: the earlier store gave no higher one before its last entry ended.
ALTER TABLE tenants
  ADD COLUMN record_store text COLLATE "C" NOT NULL DEFAULT 'redis',
  ADD COLUMN record_store_before text COLLATE "C",
  ADD COLUMN record_store_moved_at timestamptz,
  ADD COLUMN record_store_generation integer NOT NULL DEFAULT 0,
  ADD COLUMN record_fence bigint NOT NULL DEFAULT 0;

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

-- A decision about one step, and what the lock history needs of it.
CREATE TYPE record_result AS (
  kind text,
  value text,
  fence bigint,
  ms bigint,
  taken_over boolean,
  at_ms bigint,
  ended_fence bigint,
  wake boolean,
  -- Partition of the record of a hit or a save.
  expires_on date,
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
CREATE FUNCTION place_record_entry(e record_entries, expires_at bigint, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  e.expires_at := expires_at;
  -- An entry stays in its partition unless it lives longer.
  e.expires_on := greatest(e.expires_on, record_day(expires_at) + 1);
  -- Bytes of entries of up to two hours are returned by the minute, of longer ones by the hour; never in a minute that was swept.
  e.bytes_until := greatest(swept + 1, CASE WHEN expires_at - now_ms <= 7200000
    THEN expires_at / 60000 + 1 ELSE (expires_at / 3600000 + 1) * 60 END);
  e.bytes := 256 + octet_length(e.tenant_id) + octet_length(e.scope) + octet_length(e.key) + octet_length(e.token) + octet_length(e.attempt)
    + octet_length(e.fingerprint) + coalesce(octet_length(e.record), 0);
  RETURN e;
END
$$;

-- Places a lock that is held until a time: its entry outlives it by its ttl, but at least a day and at most a week. Its partition also suits
-- the record that its holder saves, so that the save is an update in place.
CREATE FUNCTION place_record_lock(e record_entries, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  e.expires_on := greatest(e.expires_on, record_day(greatest(e.held_until, now_ms) + e.ttl_ms) + 1);
  RETURN place_record_entry(e, greatest(e.held_until, now_ms) + least(greatest(e.ttl_ms, 86400000), 604800000), now_ms, swept);
END
$$;

-- Replaces a lock by its mark. It expired at 0, so that a clock that goes back does not make a free key busy.
CREATE FUNCTION mark_record_lock(e record_entries, now_ms bigint, swept integer) RETURNS record_entries
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  e.held_until := 0; e.token := ''; e.waited := false; e.attempt := ''; e.taken_over := true;
  RETURN place_record_lock(e, now_ms, swept);
END
$$;

-- Runs steps on records and locks, one after another in the given order, in one transaction, and returns a result for each.
-- t_id: the tenants, each once, in ascending order. k_*: the keys, each once, in the order in which they are to be locked; k_tenant is an
-- index into t_id. s_*: the steps; s_key is an index into k_*. What a step uses of its fields:
--   acquire: token, ttl, lock, text (the fingerprint), attempt, waits, limits, inline (maximum bytes of a record in the result); save: token,
--   ttl (-1: the lock's), lock (the ttl without a lock), text (the record); remove: token; extend: token, lock (-1: its first duration);
--   count: ttl, lock (the number of locks), text (what a repeat finds); forget: fence (of the mark that is removed). The caller of a count has
--   checked the limits.
--   s_generation: how often the tenant's records have moved, as the caller knows: another number means that the caller's view is old.
--   s_fence: the fence in the earlier store above which a lock is granted; -1 for none. s_takeover: 1 if a lock of the key ended there without
--   its outcome.
--   The result `elsewhere` of a store that writes no new entries has its last fence, in ms the bytes of other entries, and minute_locks; if
--   there is a mark, in ended_fence and value its fence and fingerprint, and taken_over if the step has made it of a lock that was over.
--   A text is '' for none, a limit Infinity for none.
CREATE FUNCTION run_record_steps(
  p_stripe integer, t_id text[],
  k_id text[], k_tenant double precision[], k_scope text[], k_key text[],
  s_key double precision[], s_kind text[], s_token text[], s_ttl_ms double precision[], s_lock_ms double precision[], s_text text[],
  s_attempt text[], s_waits double precision[],
  s_per_minute double precision[], s_per_month double precision[], s_bytes_max double precision[],
  s_inline double precision[], s_generation double precision[], s_fence double precision[], s_takeover double precision[]
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
  r record;
  e record_entries;
  before record_entries;
  m record_totals;
  o record_result;
  k integer;
  t integer;
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

  FOR r IN
    SELECT u.n, max(own.fence) AS fence, greatest(max(own.minute), now_ms / 60000)::integer AS minute, max(own.month) AS month,
      sum(own.bytes)::bigint AS bytes, max(own.swept) AS swept, max(own.generation) AS generation
    FROM unnest(t_id) WITH ORDINALITY AS u (id, n) LEFT JOIN record_meters AS own ON own.tenant_id = u.id GROUP BY u.n ORDER BY u.n
  LOOP
    m.fence := coalesce(r.fence, 0);
    m.minute := r.minute;
    m.month := greatest(r.month, record_month(now_ms));
    m.bytes := coalesce(r.bytes, 0);
    m.swept := coalesce(r.swept, r.minute);
    SELECT coalesce(sum(own.minute_locks) FILTER (WHERE own.minute = m.minute), 0),
      coalesce(sum(own.month_locks) FILTER (WHERE own.month = m.month), 0),
      coalesce(max(own.month_others) FILTER (WHERE own.month = m.month), 0)
    INTO m.minute_locks, m.month_locks, m.month_others FROM record_meters AS own WHERE own.tenant_id = t_id[r.n];
    SELECT own.record_store_generation, own.record_store = 'postgres' INTO m.generation, m.is_current
    FROM tenants AS own WHERE own.id = t_id[r.n] AND own.deleted_at IS NULL;
    m.added_locks := 0;
    m.added_bytes := 0;
    -- Once a minute and after a move. Not for a deleted tenant, whose purge may have finished.
    m.is_refreshed := m.generation IS NOT NULL AND (r.swept IS NULL OR m.swept < m.minute OR r.generation <> m.generation);
    IF m.is_refreshed THEN
      WITH gone AS (
        DELETE FROM record_bytes AS own WHERE own.tenant_id = t_id[r.n] AND own.until <= m.minute RETURNING own.bytes
      ) SELECT -coalesce(sum(gone.bytes), 0) INTO m.added_bytes FROM gone;
      m.bytes := m.bytes + m.added_bytes;
      m.swept := m.minute;
      SELECT greatest(m.month_others, coalesce(sum(u.amount), 0)) INTO m.month_others FROM usage_hourly AS u
      WHERE u.tenant_id = t_id[r.n] AND u.meter = 'locks' AND u.hour >= record_month_start(m.month);
    END IF;
    m.month_locks := m.month_locks + m.month_others;
    totals[r.n] := m;
  END LOOP;

  -- A key has at most one row: a new entry replaces also an expired one, which would otherwise be valid again if the clock went back.
  FOR r IN
    SELECT u.n, own.expires_on, CASE WHEN own.expires_at > now_ms THEN own END AS entry
    FROM unnest(k_id::uuid[]) WITH ORDINALITY AS u (id, n) JOIN record_entries AS own ON own.id = u.id
  LOOP
    entries[r.n] := r.entry;
    found_on[r.n] := r.expires_on;
  END LOOP;

  FOR s IN 1 .. cardinality(s_key) LOOP
    k := s_key[s];
    t := k_tenant[k];
    m := totals[t];
    before := entries[k];
    e := before;
    o := ROW(NULL, NULL, NULL, NULL, false, now_ms, NULL, false, NULL, NULL);
    IF before.id IS NULL THEN
      e.id := k_id[k]; e.tenant_id := t_id[t]; e.scope := k_scope[k]; e.key := k_key[k];
      e.held_until := 0; e.token := ''; e.attempt := ''; e.fingerprint := ''; e.waited := false; e.taken_over := false;
      e.ttl_ms := 0; e.lock_ms := 0;
    END IF;

    CASE
    WHEN m.generation IS DISTINCT FROM s_generation[s]::integer THEN
      o.kind := 'moved';

    WHEN before.id IS NULL AND NOT m.is_current AND (s_kind[s] IN ('acquire', 'count') OR (s_kind[s] = 'save' AND s_token[s] = '')) THEN
      o.kind := 'elsewhere';

    WHEN s_kind[s] = 'acquire' THEN
      IF e.fingerprint <> '' AND s_text[s] <> '' AND e.fingerprint <> s_text[s] THEN
        o.kind := 'mismatch';
      ELSIF before.record IS NOT NULL THEN
        o.kind := CASE WHEN octet_length(before.record) > s_inline[s] THEN 'long' ELSE 'hit' END;
        o.ms := octet_length(before.record);
        IF o.kind = 'hit' THEN o.value := before.record; o.expires_on := before.expires_on; END IF;
      ELSE
        e.held_until := now_ms + s_lock_ms[s]; e.ttl_ms := s_ttl_ms[s]; e.lock_ms := s_lock_ms[s];
        e.attempt := s_attempt[s];
        IF s_text[s] <> '' THEN e.fingerprint := s_text[s]; END IF;
        IF before.token = s_token[s] OR (before.token <> '' AND before.attempt <> '' AND before.attempt = s_attempt[s]) THEN
          e := place_record_lock(e, now_ms, m.swept);
          -- A re-entry is never refused, so it must not exceed the limit: it keeps the earlier fingerprint and attempt id.
          IF e.bytes > before.bytes AND m.bytes + e.bytes - before.bytes > s_bytes_max[s] THEN
            e.fingerprint := before.fingerprint; e.attempt := before.attempt;
            e := place_record_lock(e, now_ms, m.swept);
          END IF;
          o.kind := 'locked';
        ELSIF before.held_until > now_ms THEN
          o.kind := 'busy';
          o.ms := before.held_until - now_ms;
          e := before;
          e.waited := e.waited OR s_waits[s] = 1;
          IF e.waited IS DISTINCT FROM before.waited THEN entries[k] := e; changed[k] := true; END IF;
        ELSIF NOT m.is_current THEN
          o.kind := 'elsewhere';
          IF before.token <> '' THEN
            e := mark_record_lock(before, now_ms, m.swept);
            o.taken_over := true;
          END IF;
        ELSIF m.minute_locks >= s_per_minute[s] THEN
          o.kind := 'limited'; o.value := 'locksPerMinute'; o.ms := (m.minute + 1) * 60000::bigint - now_ms;
        ELSIF m.month_locks >= s_per_month[s] THEN
          o.kind := 'limited'; o.value := 'locksPerMonth'; o.ms := (extract(epoch FROM record_month_start(m.month + 1)) * 1000)::bigint - now_ms;
        ELSE
          e.token := s_token[s];
          e.taken_over := before.id IS NOT NULL OR s_takeover[s] = 1;
          e := place_record_lock(e, now_ms, m.swept);
          IF m.bytes + e.bytes - coalesce(before.bytes, 0) > s_bytes_max[s] THEN
            o.kind := 'limited'; o.value := 'recordBytes'; o.ms := (m.minute + 1) * 60000::bigint - now_ms;
          ELSE
            o.kind := 'locked';
            o.at_ms := NULL;
            IF before.token <> '' THEN o.ended_fence := before.fence; END IF;
            e.fence := record_fence(greatest(m.fence, before.fence, s_fence[s]::bigint), micros, p_stripe);
            m.fence := e.fence;
            m.added_locks := m.added_locks + 1; m.minute_locks := m.minute_locks + 1; m.month_locks := m.month_locks + 1;
          END IF;
        END IF;
        IF o.kind = 'locked' THEN
          o.value := e.token; o.fence := e.fence; o.ms := e.lock_ms; o.taken_over := e.taken_over;
        END IF;
      END IF;

    WHEN s_kind[s] = 'save' THEN
      IF before.record IS NOT NULL THEN
        o.kind := CASE WHEN s_token[s] <> '' AND s_token[s] <> before.token THEN 'lost'
          WHEN before.record = s_text[s] THEN 'saved' ELSE 'exists' END;
        o.fence := before.fence;
        o.value := 'repeat';
      ELSIF s_token[s] <> '' AND s_token[s] IS DISTINCT FROM before.token THEN
        o.kind := 'lost';
      ELSIF e.token = '' AND NOT m.is_current THEN
        o.kind := 'elsewhere';
      ELSE
        IF e.token = '' THEN
          e.fence := record_fence(greatest(m.fence, before.fence, s_fence[s]::bigint), micros, p_stripe);
          m.fence := e.fence;
          m.added_locks := m.added_locks + 1; m.minute_locks := m.minute_locks + 1; m.month_locks := m.month_locks + 1;
        END IF;
        e.record := s_text[s];
        o.kind := 'saved'; o.fence := e.fence; o.wake := e.waited;
        e := place_record_entry(e, now_ms + coalesce(nullif(s_ttl_ms[s], -1), before.ttl_ms, s_lock_ms[s])::bigint, now_ms, m.swept);
        o.expires_on := e.expires_on;
      END IF;

    WHEN s_kind[s] = 'remove' THEN
      o.kind := 'removed'; o.ms := 0;
      IF before.record IS NOT NULL AND s_token[s] = '' THEN
        o.ms := 1; e := NULL;
      ELSIF before.record IS NULL AND s_token[s] <> '' AND s_token[s] = before.token THEN
        o.ms := 1; o.fence := before.fence; o.wake := before.waited;
        IF before.taken_over THEN
          e := mark_record_lock(e, now_ms, m.swept);
        ELSE
          e := NULL;
        END IF;
      END IF;

    WHEN s_kind[s] = 'extend' THEN
      IF before.record IS NOT NULL OR before.token IS DISTINCT FROM s_token[s] THEN
        o.kind := 'lost';
      ELSE
        e.held_until := now_ms + least(coalesce(nullif(s_lock_ms[s], -1), e.lock_ms), e.ttl_ms)::bigint;
        e := place_record_lock(e, now_ms, m.swept);
        o.kind := 'extended'; o.fence := e.fence; o.ms := e.held_until - now_ms;
      END IF;

    WHEN s_kind[s] = 'forget' THEN
      o.kind := 'removed'; o.ms := 0;
      IF before.record IS NULL AND before.token = '' AND before.fence = s_fence[s]::bigint THEN
        o.ms := 1; e := NULL;
      END IF;

    WHEN s_kind[s] = 'count' THEN
      IF before.record IS NOT NULL THEN
        o.kind := 'known'; o.value := before.record;
      ELSE
        m.added_locks := m.added_locks + s_lock_ms[s]::bigint;
        m.minute_locks := m.minute_locks + s_lock_ms[s]::bigint; m.month_locks := m.month_locks + s_lock_ms[s]::bigint;
        e.fence := 0; e.record := s_text[s];
        e := place_record_entry(e, now_ms + s_ttl_ms[s]::bigint, now_ms, m.swept);
        o.kind := 'counted';
      END IF;
    END CASE;

    IF o.kind = 'elsewhere' THEN
      o.fence := greatest(m.fence, before.fence);
      o.ms := m.bytes - coalesce(before.bytes, 0);
      o.minute_locks := m.minute_locks;
      o.ended_fence := before.fence;
      o.value := before.fingerprint;
    END IF;
    IF o.kind IN ('locked', 'extended', 'counted') OR (o.kind = 'saved' AND o.value IS NULL) OR (o.kind = 'removed' AND o.ms = 1)
      OR (o.kind = 'elsewhere' AND o.taken_over) THEN
      -- Bytes of a minute that was swept are returned already.
      IF before.bytes_until > m.swept THEN
        b_tenant := b_tenant || t; b_until := b_until || before.bytes_until; b_bytes := b_bytes || -before.bytes::bigint;
        m.bytes := m.bytes - before.bytes; m.added_bytes := m.added_bytes - before.bytes;
      END IF;
      IF e.id IS NOT NULL THEN
        b_tenant := b_tenant || t; b_until := b_until || e.bytes_until; b_bytes := b_bytes || e.bytes::bigint;
        m.bytes := m.bytes + e.bytes; m.added_bytes := m.added_bytes + e.bytes;
      END IF;
      entries[k] := e; changed[k] := true; totals[t] := m;
    END IF;
    RETURN NEXT o;
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
