import type { LimitName } from '#internal/tenants/index.ts'
import type { LimitUsage, UsageReport } from '#internal/usage/index.ts'
import { ShareBar } from '../components/block.tsx'
import { Ago, Badge, bytesText, countText, Time, type Tone } from '../components/text.tsx'
import { link } from '../page.ts'

/** What each limit limits, in words. */
export const limitLabels: Readonly<Record<LimitName, { readonly label: string; readonly window: string }>> = {
  locksPerMinute: { label: 'Locks a minute', window: 'this minute' },
  locksPerMonth: { label: 'Locks a month', window: 'this month' },
  eventsPerMinute: { label: 'Events a minute', window: 'this minute' },
  eventsPerMonth: { label: 'Events a month', window: 'this month' },
  recordBytes: { label: 'Bytes of records and locks', window: 'now' },
}

/** An amount of what a limit limits. */
export function amountText(limit: LimitName, amount: number): string {
  return limit === 'recordBytes' ? bytesText(amount) : countText(amount)
}

/** What becomes of events over the month's hard limit. */
export function overText({ over }: Pick<UsageReport, 'over'>): string {
  return over === 'accept'
    ? 'events over the month’s limit are accepted and marked'
    : 'events over the month’s limit are refused'
}

/** How near a tenant is to a limit. Pure. */
export function limitState({ used, soft, hard }: Pick<LimitUsage, 'used' | 'soft' | 'hard'>): {
  readonly tone: Tone
  readonly text: string
  /** Of the bar that is used; undefined where there is no bar to draw. */
  readonly share: number | undefined
} {
  const top = hard ?? soft
  if (used === null) return { tone: 'quiet', text: 'Not known now', share: undefined }
  if (top === null) return { tone: 'quiet', text: 'No limit', share: undefined }
  const share = top === 0 ? 1 : used / top
  if (hard !== null && used >= hard) return { tone: 'bad', text: 'At the limit', share }
  if (soft !== null && used >= soft) return { tone: 'warn', text: 'Over the soft limit', share }
  return { tone: 'good', text: 'Within limits', share }
}

/** Each limit with how much of it is used; `tenantId` where overrides may be changed from here. */
export function LimitBars({
  report,
  nowMs,
  tenantId,
}: {
  readonly report: UsageReport
  readonly nowMs: number
  readonly tenantId?: string | undefined
}) {
  return (
    <ul class="limits">
      {report.limits.map((usage) => (
        <LimitBar key={usage.limit} {...{ usage, nowMs, tenantId }} />
      ))}
    </ul>
  )
}

interface LimitParts {
  readonly usage: LimitUsage
  readonly nowMs: number
  readonly tenantId: string | undefined
}

function LimitBar({ usage, nowMs, tenantId }: LimitParts) {
  const { limit, used, soft, hard, resetsAtMs } = usage
  const { label, window } = limitLabels[limit]
  const { tone, text, share } = limitState(usage)
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
      <Override {...{ usage, nowMs, tenantId }} />
    </li>
  )
}

function Override({ usage: { limit, override }, tenantId }: LimitParts) {
  const change = tenantId === undefined ? undefined : link('/usage/override', { tenant: tenantId, limit })
  if (override === undefined)
    return change === undefined ? null : (
      <p>
        <a href={change} aria-label={`Override ${limitLabels[limit].label}`}>
          Override
        </a>
      </p>
    )
  return (
    <div class="override">
      <p>
        Overridden to{' '}
        <strong>{override.hard === null ? 'no limit' : amountText(limit, override.hard)}</strong> until{' '}
        <Time atMs={override.untilMs} /> by {override.by}: “{override.reason}”
      </p>
      {tenantId !== undefined && change !== undefined && (
        <p class="buttons">
          <a href={change} aria-label={`Change it: ${limitLabels[limit].label}`}>
            Change it
          </a>
          <a
            href={link('/usage/override/clear', { tenant: tenantId, limit })}
            aria-label={`End it now: ${limitLabels[limit].label}`}
          >
            End it now
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
