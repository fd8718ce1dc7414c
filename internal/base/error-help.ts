import type { ErrorCode } from './api-error.ts'

/** Text of an error's page in the documentation. */
export interface ErrorHelp {
  readonly when: string
  /** Next step of the caller, and its guarantees: whether anything was written, whether a repetition is safe. */
  readonly next: string
  /** Message to show on the page if no call gets the default text of the code. */
  readonly message?: string
}

/** Texts of the pages of all errors, in Markdown. */
export const errorHelp: Readonly<Record<ErrorCode, ErrorHelp>> = {
  invalid_request: {
    when: 'The body, a query parameter, a path parameter or a header does not have the documented form, or a webhook could not be verified or read. `message` names the field and what it expects.',
    next: 'Correct the call. Nothing was done, and the same call will be refused again. For a webhook, `latchkey refused` and the page of refused calls in the dashboard name the cause; most often the signing secret in the Tenant is not that of the provider.',
    message: '"limit" must be a whole number from 1 to 100',
  },
  unauthenticated: {
    when: 'A call of the internal API has no token, or one that has expired, is not known, or is for another audience.',
    next: 'Send `Authorization: Bearer …` with one of: a token from `kubectl create token NAME --audience latchkey`, the token of an operator of `latchkey run`, or an API key of scope `dashboard` or `dashboard:read`. `latchkey login --internal` stores such a token.',
  },
  forbidden: {
    when: 'The caller is known, but has no right to do this on this tenant, or on all tenants.',
    next: 'Ask an administrator of the cluster for the right on `tenants` that the operation names. A key of scope `dashboard:read` can only read. Nothing was done.',
  },
  api_key_invalid: {
    when: 'The call has no API key, a malformed one, one that is unknown, revoked or expired, or the previous key more than 24 hours after a rotation.',
    next: 'Send `Authorization: Bearer lk_…` with a key of the tenant. In a cluster the key is in the Secret that the Tenant names. A new key is known to all processes after about a second.',
  },
  api_key_scope: {
    when: 'The API key is valid, but its scopes do not include the one that this operation needs.',
    next: 'Use a key that has the scope that the reference of the operation names, or add that scope to the key in the Tenant (`spec.apiKeys`).',
    message:
      'This call needs an API key with the scope records: add it to spec.apiKeys[].scopes of the Tenant, or use a key that has it',
  },
  tenant_suspended: {
    when: 'The platform team has suspended the tenant (`spec.suspended`). Webhooks of its providers are refused as well.',
    next: 'Ask the platform team. Calls succeed again about a second after the end of the suspension.',
  },
  route_unknown: {
    when: 'No route of this port has the path. The public API is below `/v1/`, the internal API below `/internal/v1/` on another port. A trailing slash makes another path.',
    next: 'Compare the path with the reference. `GET /v1/openapi.json` lists all paths of the public port.',
  },
  not_found: {
    when: 'There is no such event, replay, simulation, subscription, lock or tenant, it has expired, or it belongs to a tenant that the caller may not see. The response does not say which.',
    next: 'Check the id and the tenant of the key. Events are deleted after the retention of the tenant. A record that does not exist is no error: the check says `cached: false`.',
  },
  method_not_allowed: {
    when: 'The path exists, but not with this method.',
    next: 'Use a method that the header `Allow` of the response lists.',
  },
  provider_unknown: {
    when: 'The path of a webhook names a provider that does not exist, or a Provider that is not in force because its declaration or one of its vectors is wrong.',
    next: 'Correct the URL at the provider. For a Provider of your own, read its condition `Ready`; `npm run dev` logs it. The status of the Tenant has the complete URL of each of its providers (`kubectl describe tenant NAME`).',
  },
  lock_lost: {
    when: 'A save or a release names a `lockToken` that does not own the lock any more: it expired, and another caller has taken it over, or the record was saved by another holder.',
    next: 'Discard the result, since another caller does or did the operation. Check the key again for the saved response. Longer operations need a longer `lockSeconds`, and [fencing tokens](../../guides/records.md) protect what they write.',
  },
  record_exists: {
    when: 'A save found a record with another response under the same scope and key.',
    next: 'Read the saved response with `GET /v1/record` and return it. Your save changed nothing.',
  },
  provider_not_ready: {
    when: 'A simulation or an event names a provider that the tenant has not set up, or that is not ready.',
    next: 'Add the provider to `spec.providers` of the Tenant, and wait until the Tenant’s condition `Ready` is true; `latchkey tenants why` says what is missing.',
  },
  conflict: {
    when: 'Since it was read, something has changed that the call depends on, for example a setting or the state of a replay.',
    next: 'Read what has changed, then decide again whether to send the call. This call changed nothing.',
    message: 'The payload has expired, so the event cannot be delivered again',
  },
  body_too_large: {
    when: 'The body of a webhook or of a call about events, or its length in the head, is over the limit of the route, which `message` names. On the routes of records and of `/v1/simulate`, a body that is too long is 400 [`invalid_request`](invalid-request.md).',
    next: 'Send a smaller body. A provider’s retry of this webhook is refused too: in the provider’s settings, reduce what it sends.',
    message: 'The body must not be longer than 26214400 bytes',
  },
  fingerprint_mismatch: {
    when: 'The same scope and key were used before with another `fingerprint`, so two different requests share one idempotency key.',
    next: 'Answer your caller with 422: it has reused a key. A new request needs a new key. The earlier record is unchanged.',
  },
  idempotency_key_reused: {
    when: 'A write of the API has an `Idempotency-Key` that was sent with another request before.',
    next: 'Use a new key for a new request, and the same key only for repetitions of the same request.',
  },
  limit_exceeded: {
    when: 'A hard limit of the tenant is reached: locks (`locksPerMinute`, `locksPerMonth`), events (`eventsPerMinute`, and `eventsPerMonth` with `over: refuse`) or the size of its records (`recordBytes`). `RateLimit` names the limit. Usage of kinds that services report is never refused.',
    next: 'Wait as long as `Retry-After` says, then repeat the call. `GET /v1/usage` and the page of usage in the dashboard show all limits; the platform team changes them in `spec.limits`.',
  },
  too_many_replays: {
    when: 'As many replays as a tenant may run are under way, or as many as all tenants together may run.',
    next: 'Wait as long as `Retry-After` says and until a running replay ends, or cancel one. No replay was started.',
    message: '2 of these replays are running: wait until one of them ends',
  },
  too_many_searches: {
    when: 'A caller searched payloads more often than it may within a minute, or while another search of it was running. Nothing was searched.',
    next: 'Wait as long as `Retry-After` says, and narrow the search by time, type or provider, so that it needs fewer pages.',
    message: 'You may search payloads 30 times a minute in each process: wait as long as Retry-After says',
  },
  too_many_simulations: {
    when: 'As many simulations as a tenant may run are under way.',
    next: 'Wait until a running simulation ends. No simulation was started.',
  },
  internal: {
    when: 'A fault of Latchkey that it did not expect. Its log has the cause under the `requestId`.',
    next: 'Repeat the call. This is safe for a webhook and for a call with an `Idempotency-Key` or a `lockToken`. If the error stays, report the `requestId` to the platform team.',
  },
  store_unavailable: {
    when: 'Redis, or Postgres for durable records, does not answer. Nothing is known about the key: the lock may or may not have been acquired, the record may or may not have been saved.',
    next: 'Repeat the same call with the same `attemptId` or `lockToken` after `Retry-After`; if the first call was done, its repetition gets the same result. Do not run the operation without a lock unless it is safe to run twice.',
  },
  database_unavailable: {
    when: 'Postgres does not answer. Whether anything was written is not known.',
    next: 'Repeat the call with its `Idempotency-Key` after `Retry-After`. Operators: [runbook](../../runbooks/postgres-unreachable.md).',
  },
  queue_unavailable: {
    when: 'An event could be stored neither in Postgres nor in the spool in Redis. Nothing was accepted.',
    next: 'Providers send the event again by themselves. Services send the event again after `Retry-After`. Operators: [runbook](../../runbooks/events-unstorable.md).',
  },
  certificate_unavailable: {
    when: 'The signature of the webhook needs a certificate or a key set that the vendor publishes, and it could not be downloaded. A subscription of Amazon SNS that could not be confirmed has the same answer.',
    next: 'The provider sends the webhook again. Operators: runbooks for [the wallet](../../runbooks/wallet-certificate-fetch-failing.md) and for [other providers](../../runbooks/provider-key-fetch-failing.md).',
  },
  secrets_unreadable: {
    when: 'The secrets of the tenant cannot be decrypted in this process, for example because its key ring lacks a key.',
    next: 'Repeat the call later; nothing was done. Operators: [runbook](../../runbooks/tenant-secrets-unreadable.md).',
  },
  provider_paused: {
    when: 'An operator has paused the calls of this provider, for this tenant or for all.',
    next: 'The provider sends the call again by itself. Operators: [runbook](../../runbooks/paused.md).',
  },
  starting: {
    when: 'The process has just started and has not read its tenants yet.',
    next: 'Repeat the call after a second. Load balancers send nothing to such a process if they use `/readyz`.',
  },
  unavailable: {
    when: 'A store or the Kubernetes API does not answer to the back office. Whether anything was written is not known.',
    next: 'Repeat the call as it was, with its `Idempotency-Key`, after `Retry-After`.',
  },
  body_dropped: {
    when: 'Memory for request bodies was short, and this body arrived more slowly than others.',
    next: 'Send the call again; nothing was accepted. Operators: [runbook](../../runbooks/bodies-dropped.md).',
  },
  overloaded: {
    when: 'The process has as many calls under way as it admits, in total, of this tenant or of this caller, or has no memory for another body.',
    next: 'Repeat the call after `Retry-After`, with a growing delay. The call had no effect. Exception: an acknowledgement in a subscription with very many open events may be done in part; repeating it completes the rest.',
  },
  loop_detected: {
    when: 'An event was delivered to a callback that sent it to Latchkey again, several times in a circle (`Latchkey-Hops`).',
    next: 'Correct the callback: it must not forward events to a webhook URL of Latchkey. The event was not accepted.',
  },
}
