import type { ComponentChildren } from 'preact'
import type { HeldEvents } from '#internal/backoffice/index.ts'
import type { Stats, StatsPoint, TenantStats } from '#internal/usage/index.ts'
import { Card, Empty, Live, Notice, PageHeader, Tile, Tiles } from '../components/block.tsx'
import {
  type ChartParts,
  RangeChoice,
  type Series,
  type SeriesTone,
  type Span,
  TimeChart,
} from '../components/chart.tsx'
import { timeFieldText } from '../components/form.tsx'
import { Table } from '../components/list.tsx'
import { compactText, countText, durationText } from '../components/text.tsx'
import { link, nameOf, type PageContext, type PageRow, shown } from '../page.ts'
import { attentionCard } from './attention.tsx'
import { refusedAdviceOf } from './refused.tsx'

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

export const overviewRow: PageRow = {
  method: 'GET',
  path: '/',
  section: 'overview',
  async show(context) {
    const { backoffice, actor, selection, nowMs, query } = context
    const range = ranges.find(({ name }) => name === query['range']) ?? ranges[2]
    const request = { ...selection, fromMs: nowMs - range.ms, toMs: nowMs }
    const [stats, ranked, attention, held] = await Promise.all([
      backoffice.stats.read(actor, request),
      backoffice.stats.rank(actor, request),
      backoffice.attention.list(actor, selection),
      backoffice.attention.held(actor, selection),
    ])
    if (stats.kind !== 'ok') return stats
    if (ranked.kind !== 'ok') return ranked
    if (attention.kind !== 'ok') return attention
    if (held.kind !== 'ok') return held
    const card = await attentionCard(context, attention.value)
    const parts = { context, range, stats: stats.value, ranked: ranked.value, held: held.value }
    return shown('Overview', <Overview {...parts} attention={card} />)
  },
}

interface OverviewParts {
  readonly context: PageContext
  readonly range: Range
  readonly stats: Stats
  readonly ranked: readonly TenantStats[]
  readonly held: HeldEvents
}

function Overview(props: OverviewParts & { readonly attention: ComponentChildren }) {
  const { context, range, stats, ranked, held, attention } = props
  const { tenant, here, actor, query, nowMs } = context
  const hasValues = query['values'] !== undefined
  const note = context.statsNote({ fromMs: nowMs - range.ms, tenantId: tenant?.id })
  const { accepted, refused, delivered, failed } = stats.total
  return (
    <>
      <PageHeader title="Overview" lead={leadOf(context)}>
        <RangeChoice path="/" ranges={ranges} current={range.name} query={query} />
      </PageHeader>
      <Live id="stats" here={here} every="slow">
        {attention}
        {note !== undefined && (
          <Notice tone="info" title={note.title}>
            {note.text}
          </Notice>
        )}
        <StatTiles stats={stats} context={context} held={held} />
        <p class="muted tiles-note">
          Accepted and refused calls are counted when they were received, deliveries when they ended. The
          lists behind the numbers show events by their receipt and in their present state, with tests and
          notifications, so they can have more events or fewer: failed ones that were replayed since are
          listed as processed.
        </p>
        {accepted + refused + delivered + failed === 0 && (
          <Notice tone="info" title="No events in this time">
            Register the webhook URL from the tenant’s page with a provider, or start a simulation.
          </Notice>
        )}
        <div class="charts">
          {chartsOf(stats, context.query['tenant']).map((chart) => (
            <TimeChart
              atMs={stats.points.map(({ atMs }) => atMs)}
              stepMs={stats.stepMs}
              hasValues={hasValues}
              {...chart}
            />
          ))}
        </div>
        {tenant === undefined && actor.kind !== 'tenantKey' && (
          <Ranked context={context} ranked={ranked} range={range} toMs={spanOf(stats).toMs} />
        )}
      </Live>
    </>
  )
}

function leadOf({ tenant, selection }: PageContext): string {
  if (tenant !== undefined) return `Webhooks of ${nameOf(tenant)}.`
  if (selection.namespaces !== undefined) return `Webhooks of tenants in ${selection.namespaces.join(', ')}.`
  return 'Webhooks of the whole installation.'
}

/** Returns the time range that the statistics cover, extended to whole steps. */
function spanOf({ points, stepMs }: Stats): Span {
  const fromMs = points[0]?.atMs ?? 0
  return { fromMs, toMs: fromMs + points.length * stepMs }
}

function StatTiles({ stats, context, held }: Pick<OverviewParts, 'stats' | 'context' | 'held'>) {
  const { total, points, stepMs } = stats
  const span = spanOf(stats)
  const ended = total.delivered + total.failed
  const queue = points.findLast((point) => point.queue !== undefined)?.queue
  const tenant = context.query['tenant']
  const { p50, p95 } = total.latencyMs
  const [cause] = causesOf(total)
  return (
    <Tiles>
      <Tile
        label="Accepted"
        value={compactText(total.accepted)}
        note={`${countText(total.duplicates)} duplicates`}
        href={listAt('/events', { tenant })(span)}
      />
      <Tile
        label="Delivered"
        value={ended === 0 ? '–' : shareText(total.delivered / ended)}
        note={`${countText(total.delivered)} of ${countText(ended)} that ended`}
        tone={ended > 0 && total.delivered / ended < 0.95 ? 'warn' : undefined}
      />
      <Tile
        label="Failed"
        value={compactText(total.failed)}
        note={`${countText(total.attemptsFailed)} failed attempts`}
        tone={total.failed > 0 ? 'bad' : undefined}
        href={failedUntil(tenant, span)}
      />
      <Tile
        label="Refused"
        value={compactText(total.refused)}
        note={cause === undefined ? 'none' : mainCauseText(cause)}
        href={listAt('/refused', { tenant })(span)}
      />
      <Tile
        label="Latency, p95"
        value={p95 === undefined ? '–' : durationText(p95)}
        note={p50 === undefined ? 'receipt to delivery' : `median ${durationText(p50)}`}
      />
      {queue !== undefined && (
        <Tile
          label={stepMs <= minuteMs ? 'Queue' : `Peak queue (this ${durationText(stepMs)})`}
          value={compactText(queue.dueCount)}
          note={queue.dueCount === 0 ? 'none ready' : `ready, oldest ${durationText(queue.oldestAgeMs)}`}
          tone={queue.oldestAgeMs > minuteMs ? 'warn' : undefined}
        />
      )}
      <Tile
        label="Held back"
        value={held.isCut ? `${compactText(held.count)}+` : compactText(held.count)}
        note="due, but held by a pause, a suspension or a breaker"
        tone={held.count > 0 ? 'warn' : undefined}
        href={link('/events', { tenant, state: 'accepted' })}
      />
    </Tiles>
  )
}

function shareText(share: number): string {
  return share === 1 ? '100 %' : `${(Math.floor(share * 1_000) / 10).toFixed(1)} %`
}

function causesOf({ refusedBy }: Stats['total']): readonly string[] {
  return Object.entries(refusedBy)
    .toSorted(([, a], [, b]) => b - a)
    .map(([cause]) => cause)
}

function mainCauseText(cause: string): string {
  const { title } = refusedAdviceOf(cause)
  return `mostly: ${title.slice(0, 1).toLowerCase()}${title.slice(1)}`
}

type Chart = Omit<ChartParts, 'atMs' | 'stepMs' | 'hasValues'>

function listAt(path: string, query: Readonly<Record<string, string | undefined>>) {
  return ({ fromMs, toMs }: Span) =>
    link(path, { ...query, from: timeFieldText(fromMs), to: timeFieldText(toMs) })
}

/** Returns the link to the failed events. The link has no start time, because an event can fail days after its receipt. */
function failedUntil(tenant: string | undefined, { toMs }: Pick<Span, 'toMs'>): string {
  return link('/events', { tenant, state: 'delivery_failed', to: timeFieldText(toMs) })
}

function chartsOf(stats: Stats, tenant: string | undefined): readonly Chart[] {
  const { total, points } = stats
  const eventsAt = listAt('/events', { tenant })
  const of = (label: string, tone: SeriesTone, value: (point: StatsPoint) => number | undefined): Series => ({
    label,
    tone,
    values: points.map(value),
  })
  const { p50, p95 } = total.latencyMs
  return [
    {
      title: 'Events received',
      kind: 'bars',
      unit: 'count',
      summary: `${countText(total.accepted)} accepted, ${countText(total.duplicates)} duplicates`,
      series: [
        { ...of('Accepted', 'accepted', ({ accepted }) => accepted), href: eventsAt },
        of('Duplicates', 'five', ({ duplicates }) => duplicates),
      ],
      empty: 'No events were received in this time.',
      href: eventsAt,
    },
    {
      title: 'Ended deliveries',
      kind: 'bars',
      unit: 'count',
      summary: `${countText(total.delivered)} delivered, ${countText(total.failed)} failed, ${countText(total.attemptsFailed)} failed attempts`,
      series: [
        {
          ...of('Delivered', 'good', ({ delivered }) => delivered),
          href: listAt('/events', { tenant, state: 'processed' }),
        },
        of('Failed attempts', 'warn', ({ attemptsFailed }) => attemptsFailed),
        {
          ...of('Failed', 'bad', ({ failed }) => failed),
          href: (span) => failedUntil(tenant, span),
        },
      ],
      empty: 'No delivery ended in this time.',
      href: eventsAt,
    },
    {
      title: 'Latency, receipt to delivery (log)',
      kind: 'lines',
      unit: 'ms',
      summary:
        p50 === undefined || p95 === undefined
          ? 'no deliveries'
          : `half within ${durationText(p50)}, 95 % within ${durationText(p95)}`,
      series: [
        of('p50', 'one', ({ latencyMs }) => latencyMs.p50),
        of('p95', 'two', ({ latencyMs }) => latencyMs.p95),
        of('p99', 'three', ({ latencyMs }) => latencyMs.p99),
      ],
      empty: 'No event was delivered in this time.',
      href: eventsAt,
    },
    refusedChart(stats, tenant),
    ...(points.some(({ queue }) => queue !== undefined) ? queueCharts(points, of) : []),
  ]
}

const causeTones: readonly SeriesTone[] = ['bad', 'warn', 'one', 'two', 'three']

/** Returns the chart of refused calls by cause. The most frequent causes have their own colour; all others share one. */
function refusedChart({ total, points }: Stats, tenant: string | undefined): Chart {
  const causes = causesOf(total)
  const named = causes.slice(0, causes.length > causeTones.length ? causeTones.length - 1 : causeTones.length)
  const others = causes.slice(named.length)
  const countOf = ({ refusedBy }: StatsPoint, counted: readonly string[]) =>
    counted.reduce((sum, cause) => sum + (refusedBy[cause] ?? 0), 0)
  const series = named.map((cause, nth) => ({
    label: refusedAdviceOf(cause).title,
    tone: causeTones[nth] ?? 'five',
    values: points.map((point) => countOf(point, [cause])),
    href: listAt('/refused', { tenant, cause }),
  }))
  const rest: Series = {
    label: 'Other',
    tone: 'five',
    values: points.map((point) => countOf(point, others)),
  }
  const [main] = causes
  return {
    title: 'Refused calls, by cause',
    kind: 'bars',
    unit: 'count',
    summary: `${countText(total.refused)} refused${main === undefined ? '' : `, ${mainCauseText(main)}`}`,
    series: others.length > 0 ? [...series, rest] : series,
    empty: 'No call was refused in this time.',
    href: listAt('/refused', { tenant }),
  }
}

function queueCharts(
  points: Stats['points'],
  of: (label: string, tone: SeriesTone, value: (point: StatsPoint) => number | undefined) => Series,
): readonly Chart[] {
  const queues = points.flatMap(({ queue }) => (queue === undefined ? [] : [queue]))
  const most = Math.max(0, ...queues.map(({ dueCount }) => dueCount))
  const oldest = Math.max(0, ...queues.map(({ oldestAgeMs }) => oldestAgeMs))
  const empty = 'The queue was empty.'
  return [
    {
      title: 'Queue depth',
      kind: 'area',
      unit: 'count',
      empty,
      summary: `at most ${countText(most)} due at once, without those held back`,
      series: [of('Due deliveries', 'one', ({ queue }) => queue?.dueCount)],
    },
    {
      title: 'Oldest due delivery',
      kind: 'area',
      unit: 'ms',
      empty,
      summary: `at most ${durationText(oldest)}`,
      series: [of('Age', 'two', ({ queue }) => queue?.oldestAgeMs)],
    },
  ]
}

function Ranked(props: Pick<OverviewParts, 'context' | 'ranked' | 'range'> & Pick<Span, 'toMs'>) {
  const { context, ranked, range, toMs } = props
  const count = (title: string, value: (row: TenantStats) => number) => ({
    title,
    isNumber: true,
    cell: (row: TenantStats) => countText(value(row)),
  })
  return (
    <Card title="Busiest tenants" note={range.ms > 24 * hourMs ? 'last 24 hours' : `last ${range.label}`}>
      <Table<TenantStats>
        caption="Busiest tenants"
        rows={ranked}
        stable={{ id: 'ranked', rowId: ({ tenantId }) => tenantId }}
        empty={
          <Empty title="No traffic in this time">Events and deliveries appear here within seconds.</Empty>
        }
        columns={[
          {
            title: 'Tenant',
            isWide: true,
            cell: ({ tenantId }) => (
              <a href={link('/', { tenant: tenantId, range: range.name })}>{context.tenantLabel(tenantId)}</a>
            ),
          },
          count('Accepted', ({ accepted }) => accepted),
          count('Refused', ({ refused }) => refused),
          count('Delivered', ({ delivered }) => delivered),
          {
            title: 'Failed',
            isNumber: true,
            cell: ({ tenantId, failed }) =>
              failed === 0 ? (
                '0'
              ) : (
                <a class="is-bad" href={failedUntil(tenantId, { toMs })}>
                  {countText(failed)}
                </a>
              ),
          },
          count('Failed attempts', ({ attemptsFailed }) => attemptsFailed),
        ]}
      />
    </Card>
  )
}
