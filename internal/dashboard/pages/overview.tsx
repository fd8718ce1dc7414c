import type { FigurePoint, Figures, TenantFigures } from '#internal/usage/index.ts'
import { Card, Empty, Live, Notice, PageHeader, Tile, Tiles } from '../components/block.tsx'
import { type Series, type SeriesTone, TimeChart } from '../components/chart.tsx'
import { LinkButton } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { compactText, countText, durationText } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { refusedAdviceOf } from './refused-causes.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const ranges = [
  { name: '1h', label: '1 hour', ms: hourMs },
  { name: '6h', label: '6 hours', ms: 6 * hourMs },
  { name: '24h', label: '24 hours', ms: 24 * hourMs },
  { name: '7d', label: '7 days', ms: 168 * hourMs },
  { name: '30d', label: '30 days', ms: 720 * hourMs },
] as const
type Range = (typeof ranges)[number]
const rankedMax = 10

/** What happens now and what happened: rates, failures, the queue, and for whom. */
export const overviewRow: PageRow = {
  ...{ method: 'GET', path: '/', section: 'overview' },
  async show(context) {
    const { backoffice, actor, whose, nowMs, query } = context
    const range = ranges.find(({ name }) => name === query['range']) ?? ranges[2]
    const request = { ...whose, fromMs: nowMs - range.ms, toMs: nowMs }
    const [figures, ranked] = await Promise.all([
      backoffice.stats.read(actor, request),
      backoffice.stats.rank(actor, { ...request, orderBy: 'accepted', limit: rankedMax }),
    ])
    if (figures.kind !== 'ok') return figures
    if (ranked.kind !== 'ok') return ranked
    return shown(
      'Overview',
      <Overview {...{ context, range, figures: figures.value, ranked: ranked.value }} />,
    )
  },
}

interface OverviewParts {
  readonly context: PageContext
  readonly range: Range
  readonly figures: Figures
  readonly ranked: readonly TenantFigures[]
}

function Overview({ context, range, figures, ranked }: OverviewParts) {
  const { tenant, here, actor, query, nowMs } = context
  const charted = { figures, hasValues: query['values'] !== undefined }
  const note = context.figuresNote({ fromMs: nowMs - range.ms, tenantId: tenant?.id })
  return (
    <>
      <PageHeader title="Overview" lead={leadOf(context)}>
        <RangeChoice context={context} range={range} />
        <ValuesChoice context={context} />
      </PageHeader>
      <Live id="figures" here={here} every="slow">
        {note !== undefined && (
          <Notice tone="info" title={note.title}>
            {note.text}
          </Notice>
        )}
        <Numbers figures={figures} context={context} />
        {isQuiet(figures) && (
          <Notice tone="info" title="Nothing has happened in this time">
            Hand a provider its URL, which stands on the tenant’s page, or start a simulation.
          </Notice>
        )}
        <div class="charts">
          <EventsChart {...charted} />
          <DeliveriesChart {...charted} />
          <LatencyChart {...charted} />
          <RefusedChart {...charted} />
          {figures.points.some(({ queue }) => queue !== undefined) && <QueueCharts {...charted} />}
        </div>
        {tenant === undefined && actor.kind !== 'tenantKey' && <Ranked {...{ context, ranked, range }} />}
      </Live>
    </>
  )
}

interface Charted {
  readonly figures: Figures
  readonly hasValues: boolean
}

function leadOf({ tenant, whose }: PageContext): string {
  if (tenant !== undefined) return `What happens at ${tenant.displayName ?? tenant.slug ?? tenant.name}.`
  if (whose.namespaces !== undefined) return `What happens in ${whose.namespaces.join(', ')}.`
  return 'What happens in the whole installation.'
}

function RangeChoice({ context, range }: Pick<OverviewParts, 'context' | 'range'>) {
  const { tenant, query } = context
  return (
    <nav class="segments" aria-label="Time">
      {ranges.map(({ name, label }) => (
        <a
          key={name}
          href={link('/', { tenant: tenant && query['tenant'], range: name, values: query['values'] })}
          title={label}
          {...(name === range.name && { 'aria-current': 'true' as const })}
        >
          {name}
        </a>
      ))}
    </nav>
  )
}

/** Nothing of a chart is told by its drawing alone. */
function ValuesChoice({ context: { query } }: Pick<OverviewParts, 'context'>) {
  const { values, ...others } = query
  const isShown = values !== undefined
  return (
    <LinkButton href={link('/', isShown ? others : { ...others, values: 'shown' })} tone="plain">
      {isShown ? 'Hide values' : 'Show values'}
    </LinkButton>
  )
}

function isQuiet({ total }: Figures): boolean {
  return total.accepted + total.refused + total.delivered + total.failed === 0
}

function Numbers({
  figures: { total, points, stepMs },
  context,
}: Pick<OverviewParts, 'figures' | 'context'>) {
  const ended = total.delivered + total.failed
  const queue = points.findLast((point) => point.queue !== undefined)?.queue
  const tenant = context.query['tenant']
  return (
    <Tiles>
      <Tile
        label="Accepted"
        value={compactText(total.accepted)}
        note={`${countText(total.duplicates)} duplicates`}
        href={link('/events', { tenant })}
      />
      <Tile
        label="Delivered"
        value={ended === 0 ? '–' : shareText(total.delivered / ended)}
        note={`${countText(total.delivered)} of ${countText(ended)}`}
        tone={ended > 0 && total.delivered / ended < 0.95 ? 'warn' : undefined}
      />
      <Tile
        label="Failed"
        value={compactText(total.failed)}
        note={`${countText(total.attemptsFailed)} failed attempts`}
        tone={total.failed > 0 ? 'bad' : undefined}
        href={link('/events', { tenant, state: 'delivery_failed' })}
      />
      <Tile
        label="Refused"
        value={compactText(total.refused)}
        note={mainCause(total.refusedBy)}
        href={link('/refused', { tenant })}
      />
      <Tile
        label="Latency, p95"
        value={total.latencyMs.p95 === undefined ? '–' : durationText(total.latencyMs.p95)}
        note={
          total.latencyMs.p50 === undefined
            ? 'receipt to delivery'
            : `median ${durationText(total.latencyMs.p50)}`
        }
      />
      {queue !== undefined && (
        <Tile
          label={stepMs <= minuteMs ? 'Queue' : `Queue, at its worst in ${durationText(stepMs)}`}
          value={compactText(queue.dueCount)}
          note={queue.dueCount === 0 ? 'nothing waits' : `oldest ${durationText(queue.oldestAgeMs)}`}
          tone={queue.oldestAgeMs > minuteMs ? 'warn' : undefined}
        />
      )}
    </Tiles>
  )
}

function shareText(share: number): string {
  return share === 1 ? '100 %' : `${(Math.floor(share * 1_000) / 10).toFixed(1)} %`
}

function mainCause(refusedBy: Readonly<Record<string, number>>): string {
  const [cause] = Object.entries(refusedBy).toSorted(([, a], [, b]) => b - a)
  return cause === undefined ? 'none' : `mostly: ${lowerFirst(refusedAdviceOf(cause[0]).title)}`
}

const lowerFirst = (text: string) => `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`

const seriesOf = (
  { points }: Figures,
  label: string,
  tone: SeriesTone,
  value: (point: FigurePoint) => number | undefined,
): Series => ({ label, tone, values: points.map(value) })

const timesOf = ({ points, stepMs }: Figures) => ({ atMs: points.map(({ atMs }) => atMs), stepMs })

function EventsChart({ figures, hasValues }: Charted) {
  return (
    <TimeChart
      title="Events received"
      kind="bars"
      summary={`${countText(figures.total.accepted)} accepted, ${countText(figures.total.duplicates)} duplicates`}
      series={[
        seriesOf(figures, 'Accepted', 'accepted', ({ accepted }) => accepted),
        seriesOf(figures, 'Duplicates', 'five', ({ duplicates }) => duplicates),
      ]}
      {...timesOf(figures)}
      hasValues={hasValues}
      unit="count"
      empty="No event came in this time."
    />
  )
}

function DeliveriesChart({ figures, hasValues }: Charted) {
  const { delivered, failed, attemptsFailed } = figures.total
  return (
    <TimeChart
      title="Deliveries"
      kind="bars"
      summary={`${countText(delivered)} delivered, ${countText(failed)} failed for good, ${countText(attemptsFailed)} attempts failed`}
      series={[
        seriesOf(figures, 'Delivered', 'good', (point) => point.delivered),
        seriesOf(figures, 'Failed attempts', 'warn', (point) => point.attemptsFailed),
        seriesOf(figures, 'Failed', 'bad', (point) => point.failed),
      ]}
      {...timesOf(figures)}
      hasValues={hasValues}
      unit="count"
      empty="No delivery ended in this time."
    />
  )
}

function LatencyChart({ figures, hasValues }: Charted) {
  const { p50, p95 } = figures.total.latencyMs
  return (
    <TimeChart
      title="Latency, receipt to delivery (log)"
      kind="lines"
      summary={
        p50 === undefined || p95 === undefined
          ? 'nothing was delivered'
          : `half within ${durationText(p50)}, 95 of 100 within ${durationText(p95)}`
      }
      series={[
        seriesOf(figures, 'p50', 'one', ({ latencyMs }) => latencyMs.p50),
        seriesOf(figures, 'p95', 'two', ({ latencyMs }) => latencyMs.p95),
        seriesOf(figures, 'p99', 'three', ({ latencyMs }) => latencyMs.p99),
      ]}
      {...timesOf(figures)}
      hasValues={hasValues}
      unit="ms"
      empty="Nothing was delivered in this time."
    />
  )
}

const causeTones: readonly SeriesTone[] = ['bad', 'warn', 'one', 'two', 'three']

/** The four causes that are most have a colour each; all others share one. */
function RefusedChart({ figures, hasValues }: Charted) {
  const { total, points } = figures
  const causes = Object.entries(total.refusedBy)
    .toSorted(([, a], [, b]) => b - a)
    .map(([cause]) => cause)
  const named = causes.slice(0, causes.length > causeTones.length ? causeTones.length - 1 : causeTones.length)
  const others = causes.slice(named.length)
  const othersOf = (point: FigurePoint) =>
    others.reduce((sum, cause) => sum + (point.refusedBy[cause] ?? 0), 0)
  return (
    <TimeChart
      title="Refused calls, by cause"
      kind="bars"
      summary={`${countText(total.refused)} refused${causes[0] === undefined ? '' : `, mostly: ${lowerFirst(refusedAdviceOf(causes[0]).title)}`}`}
      series={[
        ...named.map((cause, nth) => ({
          label: refusedAdviceOf(cause).title,
          tone: causeTones[nth] ?? 'five',
          values: points.map(({ refusedBy }) => refusedBy[cause] ?? 0),
        })),
        ...(others.length > 0 ? [seriesOf(figures, 'other', 'five', othersOf)] : []),
      ]}
      {...timesOf(figures)}
      hasValues={hasValues}
      unit="count"
      empty="No call was refused in this time."
    />
  )
}

function QueueCharts({ figures, hasValues }: Charted) {
  const sights = figures.points.flatMap(({ queue }) => (queue === undefined ? [] : [queue]))
  const most = Math.max(0, ...sights.map(({ dueCount }) => dueCount))
  const oldest = Math.max(0, ...sights.map(({ oldestAgeMs }) => oldestAgeMs))
  return (
    <>
      <TimeChart
        title="Queue depth"
        kind="area"
        summary={`at most ${countText(most)} waited at once`}
        series={[seriesOf(figures, 'Due deliveries', 'one', ({ queue }) => queue?.dueCount)]}
        {...timesOf(figures)}
        hasValues={hasValues}
        unit="count"
        empty="Nothing had to wait."
      />
      <TimeChart
        title="Oldest in the queue"
        kind="area"
        summary={`nothing waited longer than ${durationText(oldest)}`}
        series={[seriesOf(figures, 'Age', 'two', ({ queue }) => queue?.oldestAgeMs)]}
        {...timesOf(figures)}
        hasValues={hasValues}
        unit="ms"
        empty="Nothing had to wait."
      />
    </>
  )
}

function Ranked({ context, ranked, range }: Pick<OverviewParts, 'context' | 'ranked' | 'range'>) {
  const note = range.ms > 24 * hourMs ? 'last 24 hours' : `last ${range.label}`
  return (
    <Card title="Busiest tenants" note={note}>
      <Table<TenantFigures>
        caption="Busiest tenants"
        rows={ranked}
        keyOf={({ tenantId }) => tenantId}
        empty={
          <Empty title="No tenant had anything to count">
            Events and deliveries show up here within seconds.
          </Empty>
        }
        columns={[
          {
            title: 'Tenant',
            isWide: true,
            cell: ({ tenantId }) => (
              <a href={link('/', { tenant: tenantId, range: range.name })}>{context.tenantLabel(tenantId)}</a>
            ),
          },
          { title: 'Accepted', isNumber: true, cell: ({ accepted }) => countText(accepted) },
          { title: 'Refused', isNumber: true, cell: ({ refused }) => countText(refused) },
          { title: 'Delivered', isNumber: true, cell: ({ delivered }) => countText(delivered) },
          {
            title: 'Failed',
            isNumber: true,
            cell: ({ tenantId, failed }) =>
              failed === 0 ? (
                '0'
              ) : (
                <a class="is-bad" href={link('/events', { tenant: tenantId, state: 'delivery_failed' })}>
                  {countText(failed)}
                </a>
              ),
          },
          {
            title: 'Failed attempts',
            isNumber: true,
            cell: ({ attemptsFailed }) => countText(attemptsFailed),
          },
        ]}
      />
    </Card>
  )
}
