import type { UsageReport } from '#internal/usage/index.ts'
import { Card, Live, Notice, PageHeader } from '../components/block.tsx'
import { type SeriesTone, TimeChart } from '../components/chart.tsx'
import { LinkButton } from '../components/form.tsx'
import { countText } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { LimitBars, overText } from './usage-parts.tsx'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const ranges = [
  { name: '24h', label: '24 hours', stepMs: hourMs, steps: 24 },
  { name: '7d', label: '7 days', stepMs: hourMs, steps: 168 },
  { name: '30d', label: '30 days', stepMs: dayMs, steps: 30 },
  { name: '60d', label: '60 days', stepMs: dayMs, steps: 60 },
] as const
type Range = (typeof ranges)[number]

/** A tenant's usage: of now against each limit, and by the hour or day. */
export const usageRow: PageRow = {
  ...{ method: 'GET', path: '/usage', section: 'usage' },
  async show(context) {
    const { backoffice, actor, tenant, nowMs, query } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const range = ranges.find(({ name }) => name === query['range']) ?? ranges[0]
    const fromMs = startOf(range, nowMs)
    const [usage, permissions] = await Promise.all([
      backoffice.usage.read(actor, { tenantId: tenant.id, fromMs, toMs: nowMs }),
      backoffice.tenants.permissions(actor, tenant.id),
    ])
    if (usage.kind !== 'ok') return usage
    if (permissions.kind !== 'ok') return permissions
    const mayChange = permissions.value.changeSettings
    return shown('Usage', <Usage {...{ context, report: usage.value, range, mayChange }} />)
  },
}

/** Where the first whole step of a range begins. */
function startOf({ stepMs, steps }: Range, nowMs: number): number {
  return nowMs - (nowMs % stepMs) - (steps - 1) * stepMs
}

interface UsageParts {
  readonly context: PageContext
  readonly report: UsageReport
  readonly range: Range
  readonly mayChange: boolean
}

function Usage({ context, report, range, mayChange }: UsageParts) {
  const { tenant, here, nowMs, query } = context
  const hasValues = query['values'] !== undefined
  const { values: _shown, ...others } = query
  const isUnknown = report.limits.some(({ used }) => used === null)
  return (
    <>
      <PageHeader
        title="Usage"
        lead={`What ${tenant?.displayName ?? tenant?.slug ?? tenant?.name} uses, and what it may. Minutes and months are UTC.`}
      >
        <nav class="segments" aria-label="Time">
          {ranges.map(({ name, label }) => (
            <a
              key={name}
              href={link('/usage', { ...query, range: name })}
              title={label}
              {...(name === range.name && { 'aria-current': 'true' as const })}
            >
              {name}
            </a>
          ))}
        </nav>
        <LinkButton href={link('/usage', hasValues ? others : { ...others, values: 'shown' })} tone="plain">
          {hasValues ? 'Hide values' : 'Show values'}
        </LinkButton>
      </PageHeader>
      <Live id="usage" here={here} every="slow">
        {isUnknown && (
          <Notice tone="warn" title="Redis does not answer">
            What was counted in this minute is not known now; months are those of the last roll-up.
          </Notice>
        )}
        <Card title="Limits" note={overText(report)}>
          <LimitBars report={report} nowMs={nowMs} tenantId={mayChange ? tenant?.id : undefined} />
        </Card>
        <div class="charts">
          {metersOf(report).map((meter) => (
            <MeterChart key={meter} {...{ meter, report, range, nowMs, hasValues }} />
          ))}
        </div>
      </Live>
    </>
  )
}

const ownMeters: readonly string[] = ['events', 'locks']
/** Meters of other services that are drawn; a page has to end. */
const otherMetersMax = 6

/** Ours first, whatever was counted; then those that other services counted. */
function metersOf({ hours }: UsageReport): readonly string[] {
  const others = [...new Set(hours.map(({ meter }) => meter))].filter((meter) => !ownMeters.includes(meter))
  return [...ownMeters, ...others.slice(0, otherMetersMax)]
}

const meterTones: Readonly<Record<string, SeriesTone>> = { events: 'accepted', locks: 'one' }

interface MeterParts extends Pick<UsageParts, 'report' | 'range'> {
  readonly meter: string
  readonly nowMs: number
  readonly hasValues: boolean
}

function MeterChart({ meter, report, range, nowMs, hasValues }: MeterParts) {
  const { stepMs, steps, label } = range
  const fromMs = startOf(range, nowMs)
  const values = Array.from({ length: steps }, () => 0)
  for (const { hourMs: atMs, meter: of, amount } of report.hours) {
    const nth = Math.floor((atMs - fromMs) / stepMs)
    if (of === meter && nth >= 0 && nth < steps) values[nth] = (values[nth] ?? 0) + amount
  }
  const total = values.reduce((sum, value) => sum + value, 0)
  return (
    <TimeChart
      title={titleOf(meter)}
      kind="bars"
      summary={`${countText(total)} in ${label}`}
      series={[{ label: titleOf(meter), tone: meterTones[meter] ?? 'two', values }]}
      atMs={values.map((_value, nth) => fromMs + nth * stepMs)}
      stepMs={stepMs}
      unit="count"
      empty={`Nothing was counted in ${label}.`}
      hasValues={hasValues}
    />
  )
}

function titleOf(meter: string): string {
  if (meter === 'events') return 'Events accepted'
  return meter === 'locks' ? 'Locks acquired' : meter
}
