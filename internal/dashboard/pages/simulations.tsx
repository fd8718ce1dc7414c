import { type Simulation, type SimulationState, simulationStates } from '#internal/simulations/index.ts'
import { Empty, Live, PageHeader } from '../components/block.tsx'
import { FilterForm, LinkButton } from '../components/form.tsx'
import { Pager, Table } from '../components/table.tsx'
import { Ago, StateBadge } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { tenantFields } from './tenant-field.ts'

/** Made-up disputes, newest first. */
export const simulationsRow: PageRow = {
  ...{ method: 'GET', path: '/simulations', section: 'simulations' },
  async show(context) {
    const { backoffice, actor, whose, query, tenant } = context
    const state = simulationStates.find((each) => each === query['state'])
    const [listed, rights] = await Promise.all([
      backoffice.simulations.list(actor, { ...whose, state, after: query['after'] }),
      tenant && backoffice.tenants.permissions(actor, tenant.id),
    ])
    if (listed.kind !== 'ok') return listed
    if (rights !== undefined && rights.kind !== 'ok') return rights
    const { items, next } = listed.value
    // Where no tenant is chosen yet, whether it may be is told with the choice.
    const mayStart = rights?.value.simulate ?? true
    return shown('Simulations', <Simulations {...{ context, state, items, next, mayStart }} />)
  },
}

interface SimulationsParts {
  readonly context: PageContext
  readonly state: SimulationState | undefined
  readonly items: readonly Simulation[]
  readonly next: string | undefined
  readonly mayStart: boolean
}

function Simulations({ context, state, items, next, mayStart }: SimulationsParts) {
  const { query, here, tenant } = context
  return (
    <>
      <PageHeader
        title="Simulations"
        lead="Disputes that never were: events of a chargeback’s life, sent through the same path as real ones."
      >
        {mayStart && (
          <LinkButton href={link('/simulations/new', { tenant: tenant?.id })} tone="primary">
            Start a simulation
          </LinkButton>
        )}
      </PageHeader>
      <FilterForm
        path="/simulations"
        isActive={state !== undefined || query['tenant'] !== undefined}
        fields={[
          ...tenantFields(context),
          {
            ...{ kind: 'choice', name: 'state', label: 'State', value: state, none: 'Any' },
            choices: simulationStates.map((value) => ({ value, label: value })),
          },
        ]}
      />
      <Live id="simulations" here={here} every="slow">
        <Table<Simulation>
          caption="Simulations"
          rows={items}
          keyOf={({ id }) => id}
          empty={<NoSimulations isFiltered={state !== undefined} />}
          columns={[
            {
              title: 'Dispute',
              isWide: true,
              cell: (simulation) => <a href={`/simulations/${simulation.id}`}>{disputeText(simulation)}</a>,
            },
            { title: 'State', cell: (simulation) => <StateBadge state={simulation.state} /> },
            {
              title: 'Sent',
              isNumber: true,
              cell: ({ events }) => `${sentCount(events)} of ${events.length}`,
            },
            {
              title: 'Tenant',
              cell: ({ tenantId }) => <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>,
            },
            { title: 'Outcome', cell: ({ chargeback }) => chargeback.outcome },
            { title: 'Started', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={context.nowMs} /> },
          ]}
        />
      </Live>
      <Pager path="/simulations" query={query} next={next} shown={items.length} noun="simulations" />
    </>
  )
}

/** How many of a simulation's events were sent. */
export function sentCount(events: Simulation['events']): number {
  return events.filter(({ sentAtMs }) => sentAtMs !== null).length
}

/** What is disputed, in a few words. */
export function disputeText({ chargeback }: Pick<Simulation, 'chargeback'>): string {
  const { provider, amount, currency, reason } = chargeback
  return `${moneyText(amount, currency)} · ${provider} · ${reason.replaceAll('_', ' ')}`
}

/** An amount in the smallest unit of its currency, as people write it. Pure. */
export function moneyText(amount: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay: 'code' })
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2
  return format.format(amount / 10 ** digits).replaceAll('\u00a0', ' ')
}

function NoSimulations({ isFiltered }: { readonly isFiltered: boolean }) {
  return isFiltered ? (
    <Empty icon="search" title="No simulation is in this state" />
  ) : (
    <Empty icon="simulations" title="Nothing was simulated yet">
      Start one to see how a callback takes a dispute, without any money.
    </Empty>
  )
}
