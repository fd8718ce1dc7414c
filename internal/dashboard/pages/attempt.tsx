import {
  type AttemptDetail,
  adviceOf,
  type EventDetail,
  type InspectedAttempt,
  type ShownExchange,
  statusAdvice,
} from '#internal/backoffice/index.ts'
import { parseEventId } from '#internal/base/index.ts'
import { curlCommand, forwardedEvent, forwardedOf } from '#internal/delivery/index.ts'
import { unsentCauses } from '#internal/egress/index.ts'
import type { AttemptPlace } from '#internal/events/index.ts'
import { Card, type Fact, Facts, PageHeader } from '../components/block.tsx'
import { LinkButton, PostForm, Submit } from '../components/form.tsx'
import { JsonBlock, TextBlock } from '../components/json.tsx'
import { Table } from '../components/list.tsx'
import { Badge, Copy, durationText, Icon, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, type Rights, shown } from '../page.ts'
import { Comparison } from './attempt-comparison.tsx'
import { attemptName, attemptTitle, parseAttemptName } from './attempt-name.ts'
import { DeliverButtons } from './event-buttons.tsx'

export const attemptRow: PageRow = {
  method: 'GET',
  path: '/events/:id/attempts/:attempt',
  section: 'events',
  async show(context) {
    const { backoffice, actor, params, query } = context
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const place = parseAttemptName(params['attempt'])
    if (place === undefined) return { kind: 'notFound' }
    const comparedWith = parseAttemptName(query['with'])
    const read = await backoffice.events.inspectAttempt(actor, { id, ...place, comparedWith })
    if (read.kind !== 'ok') return read
    const detail = read.value
    const { attempt } = detail
    const [rights, explained] = await Promise.all([
      backoffice.tenants.permissions(actor, detail.event.tenantId),
      backoffice.events.explain(actor, id),
    ])
    if (rights.kind !== 'ok') return rights
    if (explained.kind !== 'ok') return explained
    const parts = { context, detail, attempt, rights: rights.value }
    const name = attemptTitle(attempt, detail.event)
    const page = shown(
      name,
      <>
        <PageHeader
          title={name}
          badge={<ResultBadge {...attempt} />}
          crumbs={[
            { label: 'Events', path: link('/events', { tenant: query['tenant'] }) },
            { label: detail.event.type, path: link(`/events/${id}`, { tenant: query['tenant'] }) },
          ]}
          lead={<Copy text={id} label="Copy the event’s id" />}
        >
          <Neighbours {...parts} />
          <DeliverButtons
            context={context}
            event={detail.event}
            explanation={explained.value}
            rights={rights.value}
          />
        </PageHeader>
        <Timing {...parts} />
        <Response {...attempt} />
        <Request {...parts} />
        <Curl {...parts} />
        <Comparison context={context} detail={detail} attempt={attempt} />
      </>,
    )
    return { ...page, tenantId: detail.event.tenantId }
  },
}

interface AttemptParts {
  readonly context: PageContext
  readonly detail: InspectedAttempt
  readonly attempt: AttemptDetail
  readonly rights: Rights
}

export function attemptPath(
  { event }: Pick<EventDetail, 'event'>,
  attempt: AttemptPlace,
  { query }: Pick<PageContext, 'query'>,
): string {
  return link(`/events/${event.id}/attempts/${attemptName(attempt)}`, { tenant: query['tenant'] })
}

function ResultBadge({ outcome, status, cause }: AttemptDetail) {
  const text = status === null ? (adviceOf(cause ?? '').title ?? 'No response') : `Answered ${status}`
  return <Badge tone={outcome === 'delivered' ? 'good' : 'bad'}>{text}</Badge>
}

function Neighbours({ context, detail, attempt }: AttemptParts) {
  const at = detail.places.findIndex((place) => attemptName(place) === attemptName(attempt))
  const [before, after] = at < 0 ? [] : [detail.places[at - 1], detail.places[at + 1]]
  return (
    <>
      {before && <LinkButton href={attemptPath(detail, before, context)}>Previous attempt</LinkButton>}
      {after && <LinkButton href={attemptPath(detail, after, context)}>Next attempt</LinkButton>}
    </>
  )
}

/** Returns the consecutive steps of a call, in ms since its start. The last step lasts until the end of the call. */
function stepsOf({ durationMs, status }: AttemptDetail, exchange: ShownExchange) {
  const steps: { readonly name: string; readonly fromMs: number; readonly toMs: number }[] = []
  const known = [
    ['DNS', exchange.dnsMs],
    ['Connect', exchange.connectMs],
    ['TLS', exchange.tlsMs],
    ['Wait for the first byte', exchange.firstByteMs],
  ] as const
  let endMs = 0
  for (const [name, ms] of known) {
    if (ms === undefined) continue
    // The rounded steps can together exceed the rounded duration of the call.
    const toMs = Math.min(durationMs, endMs + ms)
    steps.push({ name, fromMs: endMs, toMs })
    endMs = toMs
  }
  steps.push({
    name: status === null ? 'Until the failure' : 'Rest of the response',
    fromMs: endMs,
    toMs: durationMs,
  })
  return steps
}

function Timing({ context, attempt }: AttemptParts) {
  const { startedAtMs, durationMs, exchange, status, cause, outcome } = attempt
  const hint = status === null ? adviceOf(cause ?? '') : statusAdvice(status)
  const facts: readonly (Fact | undefined)[] = [
    ['Started', <Time atMs={startedAtMs} format="full" />],
    ['Duration', durationText(durationMs)],
    exchange && ['Connection', exchange.isReused ? 'Reused: opened by an earlier call' : 'New'],
    exchange?.address === undefined ? undefined : ['Address', <code>{exchange.address}</code>],
    exchange?.problem === undefined ? undefined : ['Problem', exchange.problem],
  ]
  return (
    <Card title="Timing" note={context.zone === 'UTC' ? undefined : context.zone}>
      <Facts facts={facts} />
      {hint !== undefined && outcome !== 'delivered' && (
        <p>
          {hint.means} <span class="todo">{hint.todo}</span>
        </p>
      )}
      {exchange ? (
        <Steps steps={stepsOf(attempt, exchange)} wholeMs={durationMs} />
      ) : (
        <p class="muted">No call was made.</p>
      )}
      {exchange?.isReused === true && (
        <p class="muted">The connection was open already, so there was no connecting and no TLS handshake.</p>
      )}
    </Card>
  )
}

function Steps({ steps, wholeMs }: { readonly steps: ReturnType<typeof stepsOf>; readonly wholeMs: number }) {
  const percent = (ms: number) => (wholeMs === 0 ? 0 : (100 * ms) / wholeMs)
  return (
    <Table
      caption="Steps of the call"
      rows={steps}
      columns={[
        { title: 'Step', cell: ({ name }) => name },
        { title: 'Duration', isNumber: true, cell: ({ fromMs, toMs }) => durationText(toMs - fromMs) },
        {
          title: 'Within the call',
          isWide: true,
          cell: ({ fromMs, toMs }) => (
            <svg class="share is-one" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
              <rect class="share-rest" width="100" height="6" rx="1" />
              <rect
                class="share-used"
                x={percent(fromMs).toFixed(2)}
                width={Math.max(toMs > fromMs ? 0.6 : 0, percent(toMs - fromMs)).toFixed(2)}
                height="6"
              />
            </svg>
          ),
        },
      ]}
    />
  )
}

function HeaderList(props: {
  readonly headers: ShownExchange['request']['headerLines']
  readonly omitted?: number
}) {
  const { headers, omitted = 0 } = props
  return (
    <>
      <dl class="header-list">
        {headers.map(({ name, value }) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {omitted > 0 && <p class="muted">{omitted} more headers exceed the limits and were not recorded.</p>}
    </>
  )
}

function Response({ attempt, status, answer, exchange }: AttemptDetail) {
  const label = `response to attempt ${attempt}`
  return (
    <Card title="Response" note={status === null ? undefined : 'secrets redacted'}>
      {status === null ? (
        <p class="muted">There is no response.</p>
      ) : (
        <p>
          Status <strong>{status}</strong>
        </p>
      )}
      {exchange && status !== null && (
        <HeaderList headers={exchange.response.headerLines} omitted={exchange.response.headersOmitted} />
      )}
      {answer !== null &&
        (answer.trim() === '' ? (
          <p class="muted">The response has no body.</p>
        ) : (
          <JsonBlock text={answer} label={label} />
        ))}
      {exchange?.response.isBodyCut === true && <p class="muted">The body is longer than what is shown.</p>}
    </Card>
  )
}

function redactedBody({ event, headers, redactedPayload }: InspectedAttempt): {
  text: string
  isWhole: boolean
} {
  const sent = forwardedOf({ event, headers: JSON.stringify(headers) })
  return {
    text: forwardedEvent({ ...sent, ...(redactedPayload && { payload: redactedPayload.text }) }),
    isWhole: redactedPayload?.isCut === false,
  }
}

function Request({ context, detail, attempt, rights }: AttemptParts) {
  const { exchange, cause } = attempt
  if (exchange === undefined)
    return (
      <Card title="Request">
        <p class="muted">No call was made.</p>
      </Card>
    )
  const { method, url, headerLines } = exchange.request
  const isUnsent = cause !== null && unsentCauses.has(cause)
  const { text, isWhole } = redactedBody(detail)
  return (
    <Card title="Request" note="secrets redacted; signatures are never stored">
      {isUnsent && <p class="muted">No byte of it was sent, since no connection was open.</p>}
      <p class="request-line">
        <strong>{method}</strong> <code>{url}</code>
      </p>
      <HeaderList headers={headerLines} />
      <details class="request-body">
        <summary>Body, the same in every attempt</summary>
        <JsonBlock text={text} label="body of the request, redacted" />
        {!isWhole && (
          <p class="muted">
            {detail.redactedPayload
              ? 'The body is truncated here.'
              : 'The payload has expired: null stands in its place.'}
          </p>
        )}
      </details>
      {detail.redactedPayload && rights.readPayloads && (
        <div class="card-foot">
          <PostForm
            action={`/events/${detail.event.id}/payload`}
            csrfToken={context.csrfToken}
            look="inline-form"
            hidden={{ attempt: attemptName(attempt) }}
          >
            <Submit tone="normal">
              <Icon name="lock" /> Reveal the body as sent
            </Submit>
          </PostForm>
          <span class="muted">Access is recorded in the audit log.</span>
        </div>
      )}
    </Card>
  )
}

/** Headers that curl sets itself. */
const curlSets: ReadonlySet<string> = new Set(['host', 'content-length', 'connection', 'accept-encoding'])
const curlCharsMax = 16_384

/** Returns a curl command that repeats a call. It reads a long or unknown body from a file. */
export function attemptCurl({ request }: ShownExchange, body: string | undefined): string {
  const headers = request.headerLines.filter(({ name }) => !curlSets.has(name))
  return curlCommand({
    url: request.url,
    headers: headers.map(({ name, value }) => [name, value] as const),
    body: body !== undefined && body.length <= curlCharsMax ? body : undefined,
  })
}

function Curl({ detail, attempt }: AttemptParts) {
  const { exchange } = attempt
  if (exchange === undefined) return null
  const { text, isWhole } = redactedBody(detail)
  const isInline = isWhole && text.length <= curlCharsMax
  return (
    <Card title="Copy as cURL" note="for a POSIX shell">
      <p class="muted">
        Calls the address of this attempt. Replace each <code>[redacted]</code>.{' '}
        {!isInline && 'The command reads the body from the file event.json. '}
        With an API key of the tenant, <code>latchkey events get {detail.event.id} --curl</code> prints the
        call with the whole payload and a valid signature, to <code>http://127.0.0.1:3000/</code>; the option{' '}
        <code>--to</code> names another address.
      </p>
      <TextBlock
        text={attemptCurl(exchange, isInline ? text : undefined)}
        label="the call as a curl command"
      />
    </Card>
  )
}
