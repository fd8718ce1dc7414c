import { parseSimulationId, type SimulatedEvent, type Simulation } from '#internal/simulations/index.ts'
import { Card, Empty, Facts, Live, Notice, PageHeader } from '../components/block.tsx'
import { Confirm, LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { Ago, Badge, Copy, durationText, StateBadge, Time } from '../components/text.tsx'
import {
  type ActionRow,
  goTo,
  link,
  type PageContext,
  type PageResult,
  type PageRow,
  shown,
} from '../page.ts'
import { withRightTo } from './rights.ts'
import { disputeText, moneyText, sentCount } from './simulations.tsx'

/** One simulation: what was sent, what comes next, and when. Followed live. */
export const simulationRow: PageRow = {
  ...{ method: 'GET', path: '/simulations/:simulation', section: 'simulations' },
  show: (context) =>
    withSimulation(context, async (simulation) => {
      const may = await context.backoffice.tenants.permissions(context.actor, simulation.tenantId)
      if (may.kind !== 'ok') return may
      const parts = { context, simulation, maySimulate: may.value.simulate }
      return shown(disputeText(simulation), <SimulationPage {...parts} />)
    }),
}

/** Makes the next event due now. */
export const advanceRow: ActionRow = {
  ...{ method: 'POST', path: '/simulations/:simulation/advance', section: 'simulations' },
  back: '/simulations/:simulation',
  act: (context) =>
    withSimulation(context, async ({ id }) => {
      const done = await context.backoffice.simulations.advance(
        context.actor,
        id,
        context.form['event'] ?? '',
      )
      if (done.kind === 'conflict') return goTo(`/simulations/${id}`, done.problem, 'bad')
      if (done.kind !== 'ok') return done
      const { isNew } = done.value
      const text = isNew ? 'The next event is due now.' : 'It was sent already.'
      return goTo(`/simulations/${id}`, text, isNew ? 'good' : 'info')
    }),
}

/** Asks before a simulation is cancelled. */
export const askCancelRow: PageRow = {
  ...{ method: 'GET', path: '/simulations/:simulation/cancel', section: 'simulations' },
  show: (context) =>
    withSimulation(context, (simulation) =>
      withRightTo(context, simulation.tenantId, 'simulate', () =>
        shown(
          'Cancel the simulation',
          <Confirm
            question="Cancel the simulation?"
            action={`/simulations/${simulation.id}/cancel`}
            csrfToken={context.csrfToken}
            button="Cancel the simulation"
            tone="danger"
            back={`/simulations/${simulation.id}`}
          >
            <p>
              {disputeText(simulation)}: {simulation.events.length - sentCount(simulation.events)} events will
              not be sent. What was sent stays, and is delivered. It cannot be taken up again.
            </p>
          </Confirm>,
        ),
      ),
    ),
}

/** Cancels a simulation. */
export const cancelRow: ActionRow = {
  ...{ method: 'POST', path: '/simulations/:simulation/cancel', section: 'simulations' },
  back: '/simulations/:simulation',
  act: (context) =>
    withSimulation(context, async ({ id }) => {
      const done = await context.backoffice.simulations.cancel(context.actor, id)
      if (done.kind !== 'ok') return done
      const { isNew } = done.value
      return goTo(
        `/simulations/${id}`,
        isNew ? 'The simulation was cancelled.' : 'It had ended already.',
        isNew ? 'good' : 'info',
      )
    }),
}

async function withSimulation(
  { backoffice, actor, params }: PageContext,
  proceed: (simulation: Simulation) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const id = parseSimulationId(params['simulation'] ?? '')
  if (id === undefined) return { kind: 'notFound' }
  const read = await backoffice.simulations.read(actor, id)
  return read.kind === 'ok' ? proceed(read.value) : read
}

interface SimulationParts {
  readonly context: PageContext
  readonly simulation: Simulation
  readonly maySimulate: boolean
}

function SimulationPage({ context, simulation, maySimulate }: SimulationParts) {
  const { id, state, events, cause, tenantId } = simulation
  const isOpen = state === 'scheduled' || state === 'running'
  const next = events.find(({ sentAtMs }) => sentAtMs === null)
  return (
    <>
      <PageHeader
        title={disputeText(simulation)}
        crumbs={[{ label: 'Simulations', path: link('/simulations', { tenant: context.query['tenant'] }) }]}
        lead={`${context.tenantLabel(tenantId)} · ends ${simulation.chargeback.outcome}`}
      >
        {/* A new one like this one, whatever became of it. */}
        {maySimulate && <LinkButton href={againLink(simulation)}>Start one like it</LinkButton>}
      </PageHeader>
      <Live id="simulation" here={context.here}>
        {cause !== null && (
          <Notice
            tone={state === 'failed' ? 'bad' : 'warn'}
            title={state === 'failed' ? 'It failed' : 'It waits'}
          >
            <code>{cause}</code> {causeText(cause)}
          </Notice>
        )}
        {isOpen && maySimulate && next !== undefined && (
          <div class="buttons toolbar">
            <PostForm
              action={`/simulations/${id}/advance`}
              csrfToken={context.csrfToken}
              hidden={{ event: next.id }}
              isInline
            >
              <Submit>Send {next.type} now</Submit>
            </PostForm>
            <LinkButton href={`/simulations/${id}/cancel`}>Cancel</LinkButton>
          </div>
        )}
        <SimulatedEvents {...{ context, simulation }} />
        <About {...{ context, simulation }} />
      </Live>
    </>
  )
}

function againLink({ tenantId, chargeback }: Simulation): string {
  const { provider, amount, currency, reason, outcome, stepSeconds, reference } = chargeback
  return link('/simulations/new', {
    ...{ tenant: tenantId, provider, amount, currency, reason, outcome, stepSeconds },
    reference: reference ?? undefined,
  })
}

function causeText(cause: string): string {
  if (cause === 'store_unavailable') return 'A store does not answer; it is tried again.'
  if (cause === 'signing_unavailable') return 'None of the provider’s signing secrets is in force.'
  if (cause === 'secrets_unreadable')
    return 'The platform’s key ring cannot open the provider’s signing secrets; it is tried again.'
  if (cause === 'too_late') return 'An event was due so long ago that its signature would not count.'
  if (cause === 'tenant_unknown') return 'The tenant is gone.'
  if (cause === 'internal') return 'It is our fault and was logged.'
  return 'Its call was refused as a real one would be: see Refused calls for what to do.'
}

function SimulatedEvents({ context, simulation }: Pick<SimulationParts, 'context' | 'simulation'>) {
  const { nowMs } = context
  const { tenantId, state } = simulation
  return (
    <Card title="Events" note="in their order">
      <Table<SimulatedEvent>
        caption="Events of the simulation"
        rows={simulation.events}
        keyOf={({ id }) => id}
        empty={<Empty title="It has no events" />}
        columns={[
          { title: 'Event', isWide: true, cell: ({ type }) => type },
          {
            title: 'State',
            cell: ({ sentAtMs }) => {
              if (sentAtMs !== null) return <Badge tone="good">Sent</Badge>
              return state === 'scheduled' || state === 'running' ? (
                <Badge tone="info">Waits</Badge>
              ) : (
                <Badge tone="quiet">Not sent</Badge>
              )
            },
          },
          {
            title: 'When',
            cell: ({ sentAtMs, dueAtMs }) => <Ago atMs={sentAtMs ?? dueAtMs} nowMs={nowMs} />,
          },
          {
            title: 'Source id',
            cell: ({ id, sentAtMs }) =>
              sentAtMs === null ? (
                <code class="muted">{id}</code>
              ) : (
                <a href={link('/events', { tenant: tenantId, find: id })}>
                  <code>{id}</code>
                </a>
              ),
          },
        ]}
      />
    </Card>
  )
}

function About({ context, simulation }: Pick<SimulationParts, 'context' | 'simulation'>) {
  const { chargeback, tenantId, id, state, requestedBy, startedAtMs, createdAtMs, endedAtMs } = simulation
  return (
    <Card title="About">
      <Facts
        facts={[
          ['State', <StateBadge state={state} />],
          ['Id', <Copy text={id} label="Copy the id" />],
          ['Tenant', <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>],
          ['Provider', chargeback.provider],
          ['Amount', moneyText(chargeback.amount, chargeback.currency)],
          ['Reason', chargeback.reason.replaceAll('_', ' ')],
          ['Outcome', chargeback.outcome],
          ['Reference', chargeback.reference ?? undefined],
          ['Between events', durationText(chargeback.stepSeconds * 1_000)],
          ['Asked for by', requestedBy],
          ['Asked for', <Time atMs={createdAtMs} />],
          ['Begun', startedAtMs === null ? undefined : <Time atMs={startedAtMs} />],
          ['Ended', endedAtMs === null ? undefined : <Time atMs={endedAtMs} />],
        ]}
      />
    </Card>
  )
}
