import { Value } from '@sinclair/typebox/value'
import { randomToken } from '#internal/base/index.ts'
import {
  chargebackOutcomes,
  chargebackReasons,
  parseSimulationId,
  SimulateChargebackRequest,
  type SimulatedEvent,
  type Simulation,
  simulatedProviders,
  simulationStates,
  stepSecondsMax,
} from '#internal/simulations/index.ts'
import { Card, Facts, Live, Notice, PageHeader } from '../components/block.tsx'
import {
  choicesOf,
  type Field,
  FormPage,
  filled,
  LinkButton,
  PostForm,
  type Problems,
  Submit,
} from '../components/form.tsx'
import { listRow, Table } from '../components/list.tsx'
import { Ago, Badge, Copy, durationText, StateBadge, Time } from '../components/text.tsx'
import {
  type ActionRow,
  doneAt,
  goTo,
  link,
  nameOf,
  type PageContext,
  type PageRow,
  shown,
  withRight,
} from '../page.ts'
import type { Form } from '../request.ts'
import { actionRows } from './action-rows.tsx'

const simulationsRow = listRow({
  path: '/simulations',
  section: 'simulations',
  title: 'Simulations',
  noun: 'simulations',
  lead: () => 'Send simulated chargebacks through the real delivery path.',
  fields: [
    { kind: 'choice', name: 'state', label: 'State', none: 'Any', choices: choicesOf(simulationStates) },
  ],
  load: ({ backoffice, actor, selection }, asked) =>
    backoffice.simulations.list(actor, { ...selection, ...asked }),
  async actions({ backoffice, actor, tenant }) {
    const rights = tenant && (await backoffice.tenants.permissions(actor, tenant.id))
    // Hides the button only if a tenant is chosen. Otherwise the form offers a choice of tenants and checks the right.
    if (rights !== undefined && !(rights.kind === 'ok' && rights.value.simulate)) return undefined
    return (
      <LinkButton href={link('/simulations/new', { tenant: tenant?.id })} tone="primary">
        Start a simulation
      </LinkButton>
    )
  },
  columns: ({ tenantLabel, nowMs }) => [
    {
      title: 'Dispute',
      isWide: true,
      cell: (simulation) => <a href={`/simulations/${simulation.simulationId}`}>{disputeText(simulation)}</a>,
    },
    { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
    { title: 'Sent', isNumber: true, cell: ({ events }) => `${sentCount(events)} of ${events.length}` },
    {
      title: 'Tenant',
      cell: ({ tenantId }) => <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>,
    },
    { title: 'Outcome', cell: ({ chargeback }) => chargeback.outcome },
    { title: 'Started', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
  ],
  rowId: ({ simulationId }) => simulationId,
  live: () => 'slow',
  examined: () => 'the simulations that one search examines',
  empty: {
    icon: 'simulations',
    title: 'No simulations yet',
    text: 'Start one to test how a callback handles a dispute. No money is involved.',
  },
})

function sentCount(events: Simulation['events']): number {
  return events.filter(({ sentAtMs }) => sentAtMs !== null).length
}

function disputeText({ chargeback }: Pick<Simulation, 'chargeback'>): string {
  const { provider, amount, currency, reason } = chargeback
  return `${moneyText(amount, currency)} · ${provider} · ${reason.replaceAll('_', ' ')}`
}

/** Formats an amount that is given in the smallest unit of its currency. */
export function moneyText(amount: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay: 'code' })
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2
  return format.format(amount / 10 ** digits).replaceAll('\u00a0', ' ')
}

const startPath = '/simulations/new'

const startFormRow: PageRow = {
  method: 'GET',
  path: startPath,
  section: 'simulations',
  show: (context) =>
    withRight(context, 'simulate', () => {
      const typed = { currency: 'EUR', amount: '4200', stepSeconds: '5', ...context.query }
      return showStartForm({ context, typed, key: randomToken() })
    }),
}

/** Starts one simulation even if the form is sent twice. */
const startRow: ActionRow = {
  method: 'POST',
  path: startPath,
  section: 'simulations',
  back: startPath,
  backKeeps: ['provider', 'amount', 'currency', 'reason', 'outcome', 'stepSeconds', 'reference'],
  act: (context) =>
    withRight(context, 'simulate', async (tenant) => {
      const { form, backoffice, actor } = context
      const parts = { context, typed: form, key: form['key'] ?? '' }
      const read = parseStartForm(form)
      if (read.kind === 'wrong') return showStartForm({ ...parts, problems: read.problems })
      const request = { tenantId: tenant.id, chargeback: read.chargeback, idempotencyKey: parts.key }
      const started = await backoffice.simulations.start(actor, request)
      if (started.kind === 'ok')
        return goTo(`/simulations/${started.value.simulation.simulationId}`, 'The simulation was started.')
      if ('problem' in started && started.kind !== 'notFound')
        return showStartForm({ ...parts, problem: started.problem })
      return started
    }),
}

const expected = {
  provider: 'Choose card or wallet',
  amount: 'Enter a whole number from 1, in the smallest unit of the currency: 4200 is 42.00 EUR',
  currency: 'Enter a three-letter ISO 4217 code, such as EUR',
  reason: 'Choose a reason from the list',
  outcome: 'Choose won or lost',
  stepSeconds: `Enter whole seconds from 0 to ${stepSecondsMax}`,
  reference: 'Use 1 to 127 printable characters',
} as const
type StartField = keyof typeof expected

/** Parses the form of a simulation with the schema of the public API. */
export function parseStartForm(
  form: Form,
):
  | { readonly kind: 'read'; readonly chargeback: SimulateChargebackRequest }
  | { readonly kind: 'wrong'; readonly problems: Problems<StartField> } {
  const isNumber = (name: string) => name === 'amount' || name === 'stepSeconds'
  const typed = Object.fromEntries(
    Object.keys(expected).flatMap((name) => {
      const text = form[name]
      if (text === undefined || text === '') return []
      return [[name, isNumber(name) && /^\d{1,15}$/.test(text) ? Number(text) : text]]
    }),
  )
  if (Value.Check(SimulateChargebackRequest, typed)) return { kind: 'read', chargeback: typed }
  const wrong = new Set([...Value.Errors(SimulateChargebackRequest, typed)].map(({ path }) => path.slice(1)))
  const problems = Object.entries(expected).filter(([name]) => wrong.has(name))
  return { kind: 'wrong', problems: Object.fromEntries(problems) }
}

function showStartForm(props: {
  readonly context: PageContext
  readonly typed: Form
  readonly key: string
  readonly problems?: Problems<StartField>
  readonly problem?: string
}) {
  const { context, typed, problems, problem, key } = props
  const { tenant, csrfToken } = context
  const title = 'Start a simulation'
  return shown(
    title,
    <FormPage
      title={title}
      crumb="Simulations"
      card="Chargeback"
      isPaired={true}
      action={startPath}
      csrfToken={csrfToken}
      lead={`A dispute of ${tenant && nameOf(tenant)}: opened, under review, then won or lost. Its callback receives the events like a provider’s, with latchkey-origin and latchkey-simulation among their headers.`}
      problem={problem === undefined ? undefined : { title: problem }}
      hidden={{ tenant: tenant?.id, key }}
      fields={filled(startFields, typed, problems ?? {})}
      button="Start the simulation"
      back={link('/simulations', { tenant: tenant?.id })}
    />,
    problem === undefined && problems === undefined ? 200 : 422,
  )
}

const startFields: readonly (Field & { readonly name: StartField })[] = [
  { kind: 'choice', name: 'provider', label: 'Provider', choices: choicesOf(simulatedProviders) },
  { kind: 'choice', name: 'outcome', label: 'Outcome', choices: choicesOf(chargebackOutcomes) },
  {
    kind: 'number',
    name: 'amount',
    label: 'Amount',
    charsMax: 12,
    isRequired: true,
    hint: 'In the smallest unit: 4200 is 42.00 EUR.',
  },
  {
    kind: 'text',
    name: 'currency',
    label: 'Currency',
    charsMax: 3,
    isRequired: true,
    hint: 'Three-letter code (ISO 4217), such as EUR.',
  },
  { kind: 'choice', name: 'reason', label: 'Reason', choices: choicesOf(chargebackReasons) },
  {
    kind: 'number',
    name: 'stepSeconds',
    label: 'Seconds between events',
    charsMax: 5,
    hint: '0 to 86400. The first event is sent at once.',
  },
  {
    kind: 'text',
    name: 'reference',
    label: 'Reference',
    charsMax: 127,
    hint: 'Your own reference for the payment (optional).',
  },
]

async function findSimulation({ backoffice, actor, params }: PageContext) {
  const id = parseSimulationId(params['simulation'] ?? '')
  if (id === undefined) return { kind: 'notFound' } as const
  const read = await backoffice.simulations.read(actor, id)
  if (read.kind !== 'ok') return read
  return { kind: 'found', subject: read.value, owner: read.value.tenantId } as const
}

const simulationRow: PageRow = {
  method: 'GET',
  path: '/simulations/:simulation',
  section: 'simulations',
  async show(context) {
    const found = await findSimulation(context)
    if (found.kind !== 'found') return found
    const rights = await context.backoffice.tenants.permissions(context.actor, found.owner)
    if (rights.kind !== 'ok') return rights
    const parts = { context, simulation: found.subject, maySimulate: rights.value.simulate }
    return shown(disputeText(found.subject), <SimulationPage {...parts} />)
  },
}

const advanceRow: ActionRow = {
  method: 'POST',
  path: '/simulations/:simulation/advance',
  section: 'simulations',
  back: '/simulations/:simulation',
  async act(context) {
    const found = await findSimulation(context)
    if (found.kind !== 'found') return found
    const { backoffice, actor, form } = context
    const path = `/simulations/${found.subject.simulationId}`
    const done = await backoffice.simulations.advance(
      actor,
      found.subject.simulationId,
      form['sourceEventId'] ?? '',
    )
    if (done.kind === 'conflict') return goTo(path, done.problem, 'bad')
    if (done.kind !== 'ok') return done
    return doneAt(path, done.value, 'The next event is due now.', 'This event was already sent.')
  },
}

const cancelRows = actionRows<Simulation>({
  path: '/simulations/:simulation/cancel',
  section: 'simulations',
  back: '/simulations/:simulation',
  title: 'Cancel the simulation',
  right: 'simulate',
  find: findSimulation,
  ask: (simulation) => ({
    question: 'Cancel the simulation?',
    button: 'Cancel the simulation',
    tone: 'danger',
    back: `/simulations/${simulation.simulationId}`,
    text: (
      <p>
        {disputeText(simulation)}: {simulation.events.length - sentCount(simulation.events)} events will not
        be sent. Events that were sent are still delivered. A cancelled simulation cannot be resumed.
      </p>
    ),
  }),
  async act({ simulationId: id }, { backoffice, actor }) {
    const done = await backoffice.simulations.cancel(actor, id)
    if (done.kind !== 'ok') return done
    const path = `/simulations/${id}`
    return doneAt(path, done.value, 'The simulation was cancelled.', 'The simulation had already ended.')
  },
})

export const simulationRows = [
  simulationsRow,
  startFormRow,
  startRow,
  simulationRow,
  advanceRow,
  ...cancelRows,
] as const

const isOpen = ({ state }: Simulation) => state === 'scheduled' || state === 'running'

function SimulationPage(props: {
  readonly context: PageContext
  readonly simulation: Simulation
  readonly maySimulate: boolean
}) {
  const { context, simulation, maySimulate } = props
  const { simulationId: id, state, events, cause, tenantId, chargeback } = simulation
  const next = events.find(({ sentAtMs }) => sentAtMs === null)
  const { provider, amount, currency, reason, outcome, stepSeconds, reference } = chargeback
  const similar = { tenant: tenantId, provider, amount, currency, reason, outcome, stepSeconds }
  return (
    <>
      <PageHeader
        title={disputeText(simulation)}
        crumbs={[{ label: 'Simulations', path: link('/simulations', { tenant: context.query['tenant'] }) }]}
        lead={`${context.tenantLabel(tenantId)} · outcome ${outcome}`}
      >
        {maySimulate && (
          <LinkButton href={link(startPath, { ...similar, reference: reference ?? undefined })}>
            Start a similar one
          </LinkButton>
        )}
      </PageHeader>
      <Live id="simulation" here={context.here}>
        {cause !== null && (
          <Notice
            tone={state === 'failed' ? 'bad' : 'warn'}
            title={state === 'failed' ? 'The simulation failed' : 'The simulation is waiting'}
          >
            <code>{cause}</code>{' '}
            {causeTexts[cause] ?? 'The call was refused like a real one: see Refused calls.'}
          </Notice>
        )}
        {isOpen(simulation) && maySimulate && next !== undefined && (
          <div class="buttons toolbar">
            <PostForm
              action={`/simulations/${id}/advance`}
              csrfToken={context.csrfToken}
              hidden={{ sourceEventId: next.id }}
              look="inline-form"
            >
              <Submit>Send {next.type} now</Submit>
            </PostForm>
            <LinkButton href={`/simulations/${id}/cancel`}>Cancel</LinkButton>
          </div>
        )}
        <SimulatedEvents simulation={simulation} nowMs={context.nowMs} />
        <Details context={context} simulation={simulation} />
      </Live>
    </>
  )
}

const causeTexts: Readonly<Record<string, string>> = {
  store_unavailable: 'A store does not respond; the event is retried.',
  signing_unavailable: 'The provider has no current signing secret.',
  secrets_unreadable:
    'The platform’s key ring cannot decrypt the provider’s signing secrets; the event is retried.',
  too_late: 'The event was due too long ago; its signature would be refused.',
  tenant_unknown: 'The tenant was deleted.',
  internal: 'An internal error occurred and was logged.',
}

function SimulatedEvents(props: { readonly simulation: Simulation; readonly nowMs: number }) {
  const { simulation, nowMs } = props
  const stateOf = ({ sentAtMs }: SimulatedEvent) => {
    if (sentAtMs !== null) return <Badge tone="good">Sent</Badge>
    return isOpen(simulation) ? <Badge tone="info">Pending</Badge> : <Badge tone="quiet">Not sent</Badge>
  }
  return (
    <Card title="Events" note="in order">
      <Table<SimulatedEvent>
        caption="Events of the simulation"
        rows={simulation.events}
        columns={[
          { title: 'Event', isWide: true, cell: ({ type }) => type },
          { title: 'State', cell: stateOf },
          {
            title: 'Time',
            cell: ({ sentAtMs, dueAtMs }) => <Ago atMs={sentAtMs ?? dueAtMs} nowMs={nowMs} />,
          },
          {
            title: 'Provider’s id',
            cell: ({ id, sentAtMs }) =>
              sentAtMs === null ? (
                <code class="muted">{id}</code>
              ) : (
                <a href={link('/events', { tenant: simulation.tenantId, find: id })}>
                  <code>{id}</code>
                </a>
              ),
          },
        ]}
      />
    </Card>
  )
}

function Details(props: { readonly context: PageContext; readonly simulation: Simulation }) {
  const { context, simulation } = props
  const { chargeback, tenantId, simulationId, state, requestedBy } = simulation
  const { startedAtMs, createdAtMs, endedAtMs } = simulation
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['State', <StateBadge state={state} />],
          ['Id', <Copy text={simulationId} label="Copy the id" />],
          ['Tenant', <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>],
          ['Provider', chargeback.provider],
          ['Amount', moneyText(chargeback.amount, chargeback.currency)],
          ['Reason', chargeback.reason.replaceAll('_', ' ')],
          ['Outcome', chargeback.outcome],
          ['Reference', chargeback.reference ?? undefined],
          ['Between events', durationText(chargeback.stepSeconds * 1_000)],
          ['Requested by', requestedBy],
          ['Requested', <Time atMs={createdAtMs} />],
          ['Started', startedAtMs === null ? undefined : <Time atMs={startedAtMs} />],
          ['Ended', endedAtMs === null ? undefined : <Time atMs={endedAtMs} />],
        ]}
      />
    </Card>
  )
}
