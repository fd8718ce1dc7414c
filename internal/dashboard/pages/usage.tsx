import type { TenantSummary } from '#internal/backoffice/index.ts'
import {
  type AnyLimitName,
  emittedKindOf,
  isOwnKind,
  type LimitName,
  limitNames,
  parseLimitName,
} from '#internal/tenants/index.ts'
import {
  type LimitState,
  type LimitsReport,
  type LimitUsage,
  overrideDaysMax,
  overrideReasonCharsMax,
  type UsageReport,
} from '#internal/usage/index.ts'
import { Card, Live, Notice, PageHeader, ShareBar } from '../components/block.tsx'
import { RangeChoice, type SeriesTone, type Span, TimeChart } from '../components/chart.tsx'
import { Confirm, FormPage, filled, type Problems, readFields, timeFieldText } from '../components/form.tsx'
import { Ago, Badge, bytesText, countText, Time, type Tone } from '../components/text.tsx'
import {
  type ActionRow,
  doneAt,
  link,
  nameOf,
  type PageContext,
  type PageResult,
  type PageRow,
  shown,
  withRight,
} from '../page.ts'
import { invalidText } from '../problem.tsx'
import type { Form } from '../request.ts'
import { actionRows } from './action-rows.tsx'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const ranges = [
  { name: '24h', label: '24 hours', stepMs: hourMs, steps: 24 },
  { name: '7d', label: '7 days', stepMs: hourMs, steps: 168 },
  { name: '30d', label: '30 days', stepMs: dayMs, steps: 30 },
  { name: '60d', label: '60 days', stepMs: dayMs, steps: 60 },
] as const
type Range = (typeof ranges)[number]

const usageRow: PageRow = {
  method: 'GET',
  path: '/usage',
  section: 'usage',
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
    return shown(
      'Usage',
      <Usage context={context} tenant={tenant} report={usage.value} range={range} mayChange={mayChange} />,
    )
  },
}

function startOf({ stepMs, steps }: Range, nowMs: number): number {
  return nowMs - (nowMs % stepMs) - (steps - 1) * stepMs
}

function Usage(props: {
  readonly context: PageContext
  readonly tenant: TenantSummary
  readonly report: UsageReport
  readonly range: Range
  readonly mayChange: boolean
}) {
  const { context, tenant, report, range, mayChange } = props
  const { here, nowMs, query } = context
  const hasValues = query['values'] !== undefined
  return (
    <>
      <PageHeader
        title="Usage"
        lead={`Usage and limits of ${nameOf(tenant)}. Minutes and months are in UTC.`}
      >
        <RangeChoice path="/usage" ranges={ranges} current={range.name} query={query} />
      </PageHeader>
      <Live id="usage" here={here} every="slow">
        {report.limits.some(({ used }) => used === null) && (
          <Notice tone="warn" title="Redis does not respond">
            Usage of the current minute is unknown; monthly usage is that of the last roll-up.
          </Notice>
        )}
        <Card title="Limits" note={overText(report)}>
          <LimitBars report={report} nowMs={nowMs} tenantId={mayChange ? tenant.id : undefined} />
        </Card>
        <div class="charts">
          {kindsOf(report).map((kind) => (
            <KindChart
              kind={kind}
              report={report}
              range={range}
              nowMs={nowMs}
              hasValues={hasValues}
              tenant={tenant}
            />
          ))}
        </div>
      </Live>
    </>
  )
}

/** Maximum number of charts for kinds of usage that other services report. */
const otherKindsMax = 6

function kindsOf({ hours }: UsageReport): readonly string[] {
  const others = [...new Set(hours.map(({ kind }) => kind))].filter((kind) => !isOwnKind(kind))
  return ['events', 'locks', ...others.slice(0, otherKindsMax)]
}

const kindTones: Readonly<Record<string, SeriesTone>> = { events: 'accepted', locks: 'one' }
const kindTitles: Readonly<Record<string, string>> = { events: 'Events accepted', locks: 'Locks acquired' }

const kindPaths: Readonly<Record<string, string>> = { events: '/events', locks: '/executions' }

function KindChart(props: {
  readonly report: UsageReport
  readonly range: Range
  readonly tenant: TenantSummary
  readonly kind: string
  readonly nowMs: number
  readonly hasValues: boolean
}) {
  const { kind, report, range, nowMs, hasValues, tenant } = props
  const { stepMs, steps, label } = range
  const fromMs = startOf(range, nowMs)
  const values = Array.from({ length: steps }, () => 0)
  for (const { hourMs: atMs, kind: of, amount } of report.hours) {
    const nth = Math.floor((atMs - fromMs) / stepMs)
    if (of === kind && nth >= 0 && nth < steps) values[nth] = (values[nth] ?? 0) + amount
  }
  const total = values.reduce((sum, value) => sum + value, 0)
  const title = kindTitles[kind] ?? kind
  const path = kindPaths[kind]
  const href = path && {
    href: (span: Span) =>
      link(path, { tenant: tenant.id, from: timeFieldText(span.fromMs), to: timeFieldText(span.toMs) }),
  }
  return (
    <TimeChart
      title={title}
      kind="bars"
      unit="count"
      stepMs={stepMs}
      hasValues={hasValues}
      {...href}
      summary={`${countText(total)} in ${label}`}
      series={[{ label: title, tone: kindTones[kind] ?? 'two', values, ...href }]}
      atMs={values.map((_value, nth) => fromMs + nth * stepMs)}
      empty={`No usage in ${label}.`}
    />
  )
}

const limitLabels: Readonly<Record<LimitName, { readonly label: string; readonly window: string }>> = {
  locksPerMinute: { label: 'Locks per minute', window: 'this minute' },
  locksPerMonth: { label: 'Locks per month', window: 'this month' },
  eventsPerMinute: { label: 'Events per minute', window: 'this minute' },
  eventsPerMonth: { label: 'Events per month', window: 'this month' },
  recordBytes: { label: 'Bytes of records and locks', window: 'now' },
}

export function labelsOf(limit: AnyLimitName): { readonly label: string; readonly window: string } {
  const own = limitNames.find((name) => name === limit)
  if (own !== undefined) return limitLabels[own]
  return { label: `${emittedKindOf(limit) ?? limit} per month`, window: 'this month' }
}

export function amountText(limit: AnyLimitName, amount: number): string {
  return limit === 'recordBytes' ? bytesText(amount) : countText(amount)
}

export function overText({ over }: LimitsReport): string {
  return `events over the monthly limit are ${over === 'accept' ? 'accepted and marked' : 'refused'}`
}

const stateBadges: Readonly<Record<LimitState, { readonly tone: Tone; readonly text: string }>> = {
  ok: { tone: 'good', text: 'Within limits' },
  soft: { tone: 'warn', text: 'Over the soft limit' },
  overridden: { tone: 'info', text: 'Overridden' },
  hard: { tone: 'bad', text: 'At the limit' },
}

/** Describes the state of a limit. `share`, the used fraction, is undefined if there is no bar to draw. */
export function limitBadge({
  used,
  soft,
  hard,
  state,
}: Pick<LimitUsage, 'used' | 'soft' | 'hard' | 'state'>): {
  readonly tone: Tone
  readonly text: string
  readonly share: number | undefined
} {
  const top = hard ?? soft
  if (used === null || state === null) return { tone: 'quiet', text: 'Unknown', share: undefined }
  const badge = stateBadges[state]
  if (top !== null) return { ...badge, share: top === 0 ? 1 : used / top }
  return state === 'ok'
    ? { tone: 'quiet', text: 'No limit', share: undefined }
    : { ...badge, share: undefined }
}

export function LimitBars(props: {
  readonly report: LimitsReport
  readonly nowMs: number
  /** Tenant whose overrides the page offers to change. Undefined to offer no changes. */
  readonly tenantId?: string | undefined
}) {
  const { report, nowMs, tenantId } = props
  return (
    <ul class="limits">
      {report.limits.map((usage) => (
        <LimitBar usage={usage} nowMs={nowMs} tenantId={tenantId} />
      ))}
    </ul>
  )
}

function LimitBar(props: {
  readonly usage: LimitUsage
  readonly nowMs: number
  readonly tenantId: string | undefined
}) {
  const { usage, nowMs, tenantId } = props
  const { limit, used, soft, hard, resetsAtMs } = usage
  const { label, window } = labelsOf(limit)
  const { tone, text, share } = limitBadge(usage)
  const usedText = used === null ? '–' : amountText(limit, used)
  const hardText = hard === null ? 'no hard limit' : `of ${amountText(limit, hard)}`
  return (
    <li class="limit">
      <div class="limit-head">
        <span class="limit-name">{label}</span>
        <Badge tone={tone}>{text}</Badge>
      </div>
      <p class="limit-used">
        <strong>{usedText}</strong> {hardText}
        {share !== undefined && hard !== null && ` · ${percentText(share)}`}
      </p>
      {share !== undefined && (
        <ShareBar
          share={share}
          tone={tone === 'good' ? 'info' : tone}
          label={`${label}: ${usedText} ${hardText}`}
        />
      )}
      <p class="muted">
        {soft === null ? 'no soft limit' : `soft ${amountText(limit, soft)}`} · {window}
        {resetsAtMs !== undefined && (
          <>
            , ends <Ago atMs={resetsAtMs} nowMs={nowMs} />
          </>
        )}
      </p>
      {overrideOf(usage, tenantId)}
    </li>
  )
}

function overrideOf({ limit, override }: LimitUsage, tenant: string | undefined) {
  const { label } = labelsOf(limit)
  const change = tenant === undefined ? undefined : link(overridePath, { tenant, limit })
  if (override === undefined)
    return change === undefined ? null : (
      <p>
        <a href={change} aria-label={`Override ${label}`}>
          Override
        </a>
      </p>
    )
  return (
    <div class="override">
      <p>
        Overridden to{' '}
        <strong>{override.hard === null ? 'no limit' : amountText(limit, override.hard)}</strong> until{' '}
        <Time atMs={override.expiresAtMs} /> by {override.updatedBy}: “{override.reason}”
      </p>
      {change !== undefined && (
        <p class="buttons">
          <a href={change} aria-label={`Change the override of ${label}`}>
            Change
          </a>
          <a href={link(clearPath, { tenant, limit })} aria-label={`End the override of ${label}`}>
            End now
          </a>
        </p>
      )}
    </div>
  )
}

function percentText(share: number): string {
  const percent = share * 100
  return percent > 0 && percent < 1 ? 'under 1 %' : `${Math.floor(percent)} %`
}

const overridePath = '/usage/override'
const clearPath = `${overridePath}/clear`

interface Limited {
  readonly tenant: TenantSummary
  readonly limit: AnyLimitName
}

const overrideFormRow: PageRow = {
  method: 'GET',
  path: overridePath,
  section: 'usage',
  show: (context) =>
    withLimit(context, context.query['limit'], async (of) => {
      const { backoffice, actor, nowMs } = context
      const usage = await backoffice.usage.limits(actor, of.tenant.id)
      if (usage.kind !== 'ok') return usage
      const present = usage.value.limits.find(({ limit }) => limit === of.limit)
      const { hard, expiresAtMs, reason } = present?.override ?? {
        hard: present?.hard ?? null,
        expiresAtMs: nowMs + dayMs,
        reason: '',
      }
      const typed = {
        kind: present?.override?.hard === null ? 'none' : 'amount',
        hard: hard === null ? '' : String(hard),
        expiresAt: timeFieldText(expiresAtMs),
        reason,
      }
      return showOverrideForm({ context, of, typed })
    }),
}

const overrideRow: ActionRow = {
  method: 'POST',
  path: overridePath,
  section: 'usage',
  back: overridePath,
  backKeeps: ['limit'],
  act: (context) =>
    withLimit(context, context.form['limit'], async (of) => {
      const { form, nowMs, backoffice, actor, csrfToken } = context
      const { tenant, limit } = of
      const { kind = 'amount', hard: amount = '', expiresAt = '', reason: why = '', zone = '' } = form
      const typed = { kind, hard: amount, expiresAt, reason: why, zone }
      const read = parseOverrideForm(limit, typed, nowMs)
      if (read.kind === 'wrong') return showOverrideForm({ context, of, typed, problems: read.problems })
      const { hard, expiresAtMs, reason } = read
      const { label } = labelsOf(limit)
      if (form['sure'] !== 'yes')
        return shown(
          'Override a limit',
          <Confirm
            question={`Override ${label.toLowerCase()} of ${tenant.slug ?? tenant.name}?`}
            action={overridePath}
            csrfToken={csrfToken}
            button="Override the limit"
            hidden={{ ...typed, tenant: tenant.id, limit, sure: 'yes' }}
            back={link(overridePath, { tenant: tenant.id, limit })}
          >
            <p>
              The hard limit is <strong>{hard === null ? 'lifted' : amountText(limit, hard)}</strong> until{' '}
              <Time atMs={expiresAtMs} format="full" />, effective within two seconds.
            </p>
            <p>Reason: “{reason}”</p>
          </Confirm>,
        )
      const asked = { tenantId: tenant.id, limit, hard, expiresAtMs, reason }
      const done = await backoffice.usage.override(actor, asked)
      if (done.kind === 'invalid') {
        const text = invalidText(done)
        const place = done.field === undefined ? { problem: text } : { problems: { [done.field]: text } }
        return showOverrideForm({ context, of, typed, ...place })
      }
      if (done.kind !== 'ok') return done
      const path = link('/usage', { tenant: tenant.id })
      return doneAt(path, done.value, `${label}: overridden.`, 'This override was already set.')
    }),
}

function limitIn(context: PageContext, named: string | undefined): Limited | PageResult {
  const limit = parseLimitName(named ?? '')
  const { tenant } = context
  if (tenant === undefined) return { kind: 'needsTenant' }
  return limit === undefined
    ? { kind: 'invalid', problem: 'There is no such limit: choose one on the usage page' }
    : { tenant, limit }
}

function withLimit(
  context: PageContext,
  named: string | undefined,
  proceed: (of: Limited) => Promise<PageResult> | PageResult,
): Promise<PageResult> | PageResult {
  const of = limitIn(context, named)
  return 'limit' in of ? withRight(context, 'changeSettings', () => proceed(of)) : of
}

const overrideFields = (limit: AnyLimitName) =>
  [
    {
      kind: 'choice',
      name: 'kind',
      label: 'Limit',
      choices: [
        { value: 'amount', label: 'This amount' },
        { value: 'none', label: 'No limit' },
      ],
    },
    {
      kind: 'number',
      name: 'hard',
      label: 'Amount',
      charsMax: 15,
      hint: `${limit === 'recordBytes' ? 'In bytes. ' : ''}Ignored for “No limit”.`,
    },
    {
      kind: 'time',
      name: 'expiresAt',
      label: 'Until',
      isRequired: true,
      hint: `At most ${overrideDaysMax} days ahead.`,
    },
    {
      kind: 'text',
      name: 'reason',
      label: 'Reason',
      charsMax: overrideReasonCharsMax,
      isRequired: true,
      hint: 'Shown beside the limit and in the audit log.',
      expected: `Enter a reason of at most ${overrideReasonCharsMax} characters for the audit log`,
    },
  ] as const

export function parseOverrideForm(limit: AnyLimitName, typed: Form, nowMs: number) {
  const isNone = typed['kind'] === 'none'
  const read = readFields(overrideFields(limit), isNone ? { ...typed, hard: '0' } : typed)
  const { hard, expiresAt: expiresAtMs = nowMs, reason = '' } = read.values
  const problems: Problems = {
    ...(hard === undefined && { hard: 'Enter a whole number of at most 15 digits' }),
    ...(expiresAtMs <= nowMs && { expiresAt: 'This time has passed: enter a later one' }),
    ...read.problems,
  }
  if (hard === undefined || Object.keys(problems).length > 0) return { kind: 'wrong', problems } as const
  return { kind: 'read', hard: isNone ? null : hard, expiresAtMs, reason } as const
}

function showOverrideForm(props: {
  readonly context: PageContext
  readonly of: Limited
  readonly typed: Form
  readonly problems?: Problems
  readonly problem?: string
}) {
  const {
    context,
    of: { tenant, limit },
    typed,
    problems,
    problem,
  } = props
  return shown(
    'Override a limit',
    <FormPage
      crumb="Usage"
      card="Temporary limit"
      action={overridePath}
      csrfToken={context.csrfToken}
      title={`Override ${labelsOf(limit).label.toLowerCase()}`}
      lead="A temporary hard limit. When it ends, the tenant’s own limit or the platform’s default applies again."
      problem={problem === undefined ? undefined : { title: problem }}
      hidden={{ tenant: tenant.id, limit }}
      fields={filled(overrideFields(limit), typed, problems ?? {})}
      button="Continue"
      back={link('/usage', { tenant: tenant.id })}
    />,
    problem === undefined && problems === undefined ? 200 : 422,
  )
}

const clearRows = actionRows<Limited>({
  path: clearPath,
  section: 'usage',
  back: '/usage',
  title: 'End the override',
  right: 'changeSettings',
  find(context, fields) {
    const of = limitIn(context, fields['limit'])
    return 'limit' in of ? { kind: 'found', subject: of, owner: of.tenant.id } : of
  },
  ask: ({ tenant, limit }) => ({
    question: `End the override of ${labelsOf(limit).label.toLowerCase()}?`,
    button: 'End the override',
    tone: 'danger',
    hidden: { tenant: tenant.id, limit },
    back: link('/usage', { tenant: tenant.id }),
    text: (
      <p>
        The tenant’s own limit or the platform’s default applies again at once. The audit log records the
        change.
      </p>
    ),
  }),
  async act({ tenant, limit }, { backoffice, actor }) {
    const done = await backoffice.usage.clearOverride(actor, { tenantId: tenant.id, limit })
    if (done.kind !== 'ok') return done
    const path = link('/usage', { tenant: tenant.id })
    const { label } = labelsOf(limit)
    const change = { isNew: done.value.existed }
    return doneAt(path, change, `${label}: the override was ended.`, 'There was no override.')
  },
})

export const usageRows = [usageRow, overrideFormRow, overrideRow, ...clearRows] as const
