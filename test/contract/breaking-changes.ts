/** Breaking differences with one reason. */
export interface BreakingChange {
  /** Reason for users, as in the section "Breaking" of CHANGELOG.md. */
  readonly reason: string
  /** Lines of differences; `*` stands for any text. Each must match a difference. */
  readonly lines: readonly string[]
}

/**
 * Breaking differences from the recorded version that are intended. `npm run record`, at a release, empties the list. What may break in
 * which version: docs/change-policy.md.
 */
export const breakingChanges: readonly BreakingChange[] = [
  {
    reason:
      'Patterns are portable to RE2 and Python. They describe the same texts; the server accepts and refuses the same calls.',
    lines: [
      'public * parameter.*: pattern changed',
      'public BatchCheck (request).*: pattern changed',
      'public *Request (request).*: pattern changed',
      'internal * body.*: pattern changed',
    ],
  },
  {
    reason:
      'Times in bodies have the format `date-time`, as everywhere else. Days that their month does not have are refused, which were taken for days of the next month.',
    lines: ['internal * body.*: format added'],
  },
  {
    reason:
      'The documents state limits that the server already enforced; it accepts and refuses the same calls.',
    lines: [
      'public *(request).ttlSeconds: maximum 2147483647 became 2592000',
      'public * parameter.header *: maxLength none became 255',
      'public * parameter.header *: minLength none became 1',
    ],
  },
  {
    reason:
      'Sets of providers, scopes, error codes, conditions and values of a Tenant are documented as sets that may grow, which they always were.',
    lines: [
      '* (answer).*: the set of values may grow',
      'internal GET /internal/v1/tenants/{tenantId}/limits answer 200.over: the set of values may grow',
    ],
  },
  {
    reason: 'A tenant can pull its events instead of having a callback.',
    lines: ['internal TenantDetail (answer).spec.callback: became optional'],
  },
  {
    reason: 'Usage has one shape both ways, `{kind, amount}`.',
    lines: [
      'internal Usage (answer).hours[].meter: removed',
      'internal PUT /internal/v1/tenants/{tenantId}/usage/{emissionId} body.count: removed',
      'internal PUT /internal/v1/tenants/{tenantId}/usage/{emissionId} body.amount: added, required',
    ],
  },
  {
    reason: 'Limits can be set on emitted kinds, whose names are not known beforehand.',
    lines: [
      'internal GET /internal/v1/tenants/{tenantId}/limits answer 200.limits[].limit: the closed set of values became open',
      'internal Usage (answer).limits[].limit: the closed set of values became open',
    ],
  },
  {
    reason:
      'Both documents name one thing with one word: the internal API takes the public names, and former names are gone.',
    lines: [
      'internal EventSummary (answer).rawType: removed',
      'internal POST /internal/v1/events body.rawType: removed',
      'internal POST /internal/v1/events: operationId appendEvent became ingestEvent',
      'internal EventSummary (answer).round: removed',
      'internal EventDetail (answer).attempts[].round: removed',
      'internal POST /internal/v1/events/{eventId}/replays body.round: removed',
      'internal EventSummary (answer).settledAt: removed',
      'internal EventDetail (answer).payload: removed',
      'internal EventDetail (answer).queued: removed',
      'internal GET * parameter.query tenant: removed',
      'internal Simulation (answer).id: removed',
      'internal POST /internal/v1/simulations/{simulationId}/advance body.event: removed',
      'internal POST /internal/v1/simulations/{simulationId}/advance body.sourceEventId: added, required',
      'internal Replay (answer).failedCause: removed',
      'internal ReplayChanged (answer).job: removed',
      'internal CallbackTested (answer).result.answerCut: removed',
      'internal CallbackTested (answer).result.detail: removed',
      'internal Execution (answer).heldUntil: removed',
      'internal Permissions (answer).appendEvents: removed',
      'internal TenantDetail (answer).breakerUntil: removed',
      'internal TenantDetail (answer).keys[].endsAt: removed',
      'internal TenantDetail (answer).suspendedCallback.since: removed',
      'internal Tenant* (answer).isSuspended: removed',
      'internal PUT /internal/v1/tenants/{tenantId}/usage/{emissionId} body.at: removed',
      'internal PUT /internal/v1/tenants/{tenantId}/usage/{emissionId} body.occurredAt: added, required',
      ...['by', 'setAt', 'until'].flatMap((name) => [
        `internal * (answer).limits[].override.${name}: removed`,
        `internal GET /internal/v1/tenants/{tenantId}/limits answer 200.limits[].override.${name}: removed`,
      ]),
      'internal PUT /internal/v1/tenants/{tenantId}/limits/{limit}/override body.until: removed',
      'internal PUT /internal/v1/tenants/{tenantId}/limits/{limit}/override body.expiresAt: added, required',
    ],
  },
  {
    reason: 'Paths of collections are plural.',
    lines: [
      'internal GET /internal/v1/audit: operation removed',
      'internal GET /internal/v1/tenant: operation removed',
      'internal POST /internal/v1/replay-preview: operation removed',
    ],
  },
  {
    reason: 'What is started and goes on after the response is 202, for a repeat too.',
    lines: ['internal POST * answer 200: status removed', 'internal POST * answer 202: status added'],
  },
  {
    reason: 'A removal says `existed`: whether there was something to remove.',
    lines: ['internal DELETE * answer 200.isNew: removed', 'internal DELETE * answer 200.version: removed'],
  },
  {
    reason:
      'Query parameters that are numbers are integers, and filters and path parameters state the values that the server already enforced. Audit actions are a closed set; a prefix of one is its subject with a dot.',
    lines: [
      'internal * parameter.query *: type ["string"] became ["integer"]',
      'internal * parameter.query *: maximum none became *',
      'internal * parameter.query *: minimum none became *',
      'internal GET * parameter.query limit: default none became 50',
      'internal * parameter.* *: the open set of values became closed',
      'internal * parameter.* *: pattern added',
      'internal * parameter.* *: maxLength none became *',
      'internal * parameter.* *: minLength none became *',
    ],
  },
  {
    reason: 'Events of `card`: one fact has one type, and an update that changes no status is an update.',
    lines: [
      'types card charge.dispute.closed *: chargeback.* became chargeback.closed',
      'types card charge.dispute.updated *: chargeback.* became chargeback.updated',
      'types card charge.refunded: refund.succeeded became refund.updated',
      'types card charge.refund.updated *: refund.* became refund.updated',
      'types card refund.updated *: refund.* became refund.updated',
      'types card checkout.session.async_payment_*: payment.* became checkout.payment_*',
    ],
  },
  {
    reason:
      'Events of `codehost`: pull requests are `pull_request.*`, reviews and only reviews `review.*`, and one run has one result.',
    lines: [
      'types codehost pull_request *: review.* became pull_request.*',
      'types codehost issue_comment *: review.commented became pull_request.commented',
      'types codehost pull_request_review_comment *: review.commented became review.comment_created',
      'types codehost check_run *: build.* became check.*',
      'types codehost check_suite *: build.* became check_suite.*',
      'types codehost workflow_job *: build.* became build_job.*',
      'types codehost status *: build.* became commit_status.*',
      'types codehost fork: code.forked became repository.forked',
    ],
  },
  {
    reason:
      'A failed charge of a subscription has one type with every provider; a paid one is `payment.succeeded` once, and `subscription.payment_succeeded` where the provider reports the period as well.',
    lines: [
      'types gateway subscription_charged_unsuccessfully: payment.failed became subscription.payment_failed',
      'types storefront subscription_billing_attempts/*: payment.* became subscription.payment_*',
    ],
  },
  {
    reason: 'One dispute, refund or order change has one event of its type; repeats are updates.',
    lines: [
      'types gateway dispute_disputed: chargeback.under_review became chargeback.evidence_submitted',
      'types storefront order_transactions/create *: refund.created became refund.updated',
      'types storefront order_transactions/create *"void"*: payment.* became storefront.order_transactions.create',
      'types storefront orders/edited: order.updated became order.edited',
      'types wallet CUSTOMER.DISPUTE.UPDATED *: chargeback.* became chargeback.updated',
      'types wallet RISK.DISPUTE.CREATED: chargeback.created became chargeback.updated',
    ],
  },
  {
    reason: 'The process `run` is new.',
    lines: ['settings *: required by run'],
  },
  {
    reason:
      'The commands `settings` and `replay` call the internal API, and its audit log names the caller of the token.',
    lines: ['commands replay: --by removed', 'commands settings: --by removed'],
  },
  {
    reason: 'API keys have further scopes, for the events of their tenant.',
    lines: ['internal TenantDetail (answer).spec.apiKeys[].scopes: maxItems 5 became 8'],
  },
  {
    reason:
      'Providers can be declared: a name of a provider is no longer one of a closed set. All former names are accepted and shown as before.',
    lines: [
      'public Provider (request): maxLength none became 40',
      'public Provider (request): pattern added',
      'internal TenantDetail (answer).spec.providers: maxItems 6 became 50',
      'tenant v1alpha1 spec.providers[].name: maxLength none became 40',
      'tenant v1alpha1 spec.providers[].name: pattern added',
      'tenant v1alpha1 status.urls: maxItems 6 became 300',
      'tenant v1alpha1 status.urls[].provider: the closed set of values became open',
    ],
  },
]
