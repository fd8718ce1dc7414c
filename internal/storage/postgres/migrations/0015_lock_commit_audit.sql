-- One entry per commit of locks: its repeats write the entry again, in case the reply of Redis to the first call was lost. An id can be
-- used again once Redis has forgotten it, hence the time of the commit.
CREATE UNIQUE INDEX audit_lock_commits ON audit (tenant_id, (detail ->> 'id'), (detail ->> 'committedAt'))
  WHERE action = 'usage.committed' AND detail ->> 'kind' = 'locks';
