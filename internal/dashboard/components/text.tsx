import type { ComponentChildren } from 'preact'
import { useContext } from 'preact/hooks'
import strokes from '../assets/icons.json'
import { ReaderClockContext, type TimeFormat, timeText, utcText, utcZone } from './clock.ts'

const dayMs = 86_400_000

export function Time({ atMs, format = 'short' }: { readonly atMs: number; readonly format?: TimeFormat }) {
  const clock = useContext(ReaderClockContext)
  return (
    <time datetime={new Date(atMs).toISOString()} title={utcText(atMs)}>
      {timeText(atMs, format, clock)}
    </time>
  )
}

export function Ago({ atMs, nowMs }: { readonly atMs: number; readonly nowMs: number }) {
  const clock = useContext(ReaderClockContext)
  const apartMs = nowMs - atMs
  const text = durationText(Math.abs(apartMs))
  const isNow = Math.abs(apartMs) < 1_000
  const utc = utcText(atMs)
  const title = clock.zone === utcZone ? utc : `${timeText(atMs, 'full', clock)} (${utc})`
  return (
    <time datetime={new Date(atMs).toISOString()} title={title}>
      {isNow ? 'just now' : apartMs >= 0 ? `${text} ago` : `in ${text}`}
    </time>
  )
}

/** Formats at most the two largest units: `480 ms`, `2.4 s`, `3 min 20 s`, `2 d 4 h`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3_600) return pairText(seconds, 60, 'min', 's')
  if (ms < dayMs) return pairText(Math.floor(seconds / 60), 60, 'h', 'min')
  return pairText(Math.floor(seconds / 3_600), 24, 'd', 'h')
}

function pairText(amount: number, size: number, large: string, small: string): string {
  const rest = amount % size
  return `${Math.floor(amount / size)} ${large}${rest === 0 ? '' : ` ${rest} ${small}`}`
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

export function countText(count: number): string {
  return grouped.format(count)
}

export function compactText(count: number): string {
  return compact.format(count)
}

export function bytesText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10))
  return `${grouped.format(bytes / 1_024 ** power)} ${units[power - 1]}`
}

/** Meaning of a colour. The text next to it must state the same meaning. */
export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'quiet'

export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return (
    <span class={`badge is-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  )
}

const stateTones: Readonly<Record<string, readonly [Tone, string]>> = {
  accepted: ['info', 'Accepted'],
  processed: ['good', 'Processed'],
  delivery_failed: ['bad', 'Delivery failed'],
  verified: ['quiet', 'Stored only'],
  queued: ['info', 'Queued'],
  delivered: ['good', 'Delivered'],
  failed: ['bad', 'Failed'],
  scheduled: ['quiet', 'Scheduled'],
  running: ['info', 'Running'],
  completed: ['good', 'Completed'],
  cancelled: ['quiet', 'Cancelled'],
  held: ['info', 'Held'],
  saved: ['good', 'Saved'],
  released: ['quiet', 'Released'],
  expired: ['warn', 'Expired'],
  taken_over: ['warn', 'Taken over'],
  active: ['good', 'Active'],
  suspended: ['bad', 'Suspended'],
  tenant_suspended: ['warn', 'Suspended with its tenant'],
  breaker_open: ['warn', 'Circuit breaker open'],
  breaker_half_open: ['warn', 'Circuit breaker half-open'],
  failing: ['warn', 'Failing'],
  paused: ['warn', 'Paused'],
  off: ['quiet', 'Off'],
  verify: ['info', 'Verify only'],
  enabled: ['good', 'Enabled'],
  True: ['good', 'True'],
  False: ['bad', 'False'],
  Unknown: ['warn', 'Unknown'],
}

/** Renders a state as a badge. An unknown state is shown unchanged. */
export function StateBadge({ state }: { readonly state: string }) {
  const [tone, label] = stateTones[state] ?? (['quiet', state] as const)
  return <Badge tone={tone}>{label}</Badge>
}

export function Copy(props: { readonly text: string; readonly label: string; readonly shown?: string }) {
  const { text, label, shown } = props
  return (
    <span class="copy">
      <code>{shown ?? text}</code>
      <CopyButton text={text} label={label} />
    </span>
  )
}

/** Renders a button that copies a text. Hidden without scripts. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <button type="button" class="copy-button" data-copy={text} title={label} hidden>
      <Icon name="copy" />
      <span class="visually-hidden" data-said aria-live="polite">
        {label}
      </span>
    </button>
  )
}

/** Names in `assets/icons.json`, whose SVG paths are on a 16 by 16 grid. */
export type IconName = keyof typeof strokes

/** Renders an icon in the colour of the text around it. Hidden from screen readers. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={strokes[name]} />
    </svg>
  )
}
