import type { ComponentChildren } from 'preact'
import { Icon } from './icon.tsx'

const dayMs = 86_400_000

type TimeFormat = 'full' | 'short' | 'day' | 'minute'

/** A time in UTC; with scripts in the reader's time zone, with UTC on hover. */
export function Time({ atMs, format = 'short' }: { readonly atMs: number; readonly format?: TimeFormat }) {
  const iso = new Date(atMs).toISOString()
  return (
    <time datetime={iso} data-format={format}>
      {utcText(iso, format)}
    </time>
  )
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

function utcText(iso: string, format: TimeFormat): string {
  const day = `${Number(iso.slice(8, 10))} ${months[Number(iso.slice(5, 7)) - 1]}`
  if (format === 'day') return day
  if (format === 'minute') return iso.slice(11, 16)
  if (format === 'short') return `${day}, ${iso.slice(11, 19)} UTC`
  return `${day} ${iso.slice(0, 4)}, ${iso.slice(11, 19)} UTC`
}

/** Distance of a time from now; the time itself on hover. */
export function Ago({ atMs, nowMs }: { readonly atMs: number; readonly nowMs: number }) {
  const iso = new Date(atMs).toISOString()
  const apartMs = nowMs - atMs
  const text = durationText(Math.abs(apartMs))
  const isNow = Math.abs(apartMs) < 1_000
  return (
    <time datetime={iso} title={`${iso.slice(0, 19).replace('T', ' ')} UTC`}>
      {isNow ? 'just now' : apartMs >= 0 ? `${text} ago` : `in ${text}`}
    </time>
  )
}

/** Formats a duration in its two largest units: `480 ms`, `2.4 s`, `3 min 20 s`, `2 d 4 h`. */
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

/** Formats a number with thousands separators: `12,480`. */
export function countText(count: number): string {
  return grouped.format(count)
}

/** Formats a number compactly, for tiles and axes: `12.5K`. */
export function compactText(count: number): string {
  return compact.format(count)
}

/** Formats bytes: `840 B`, `12.4 KiB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10))
  return `${grouped.format(bytes / 1_024 ** power)} ${units[power - 1]}`
}

/** Meaning of a colour, which the words beside it repeat. */
export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'quiet'

/** A state in one word. */
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
  verified: ['quiet', 'Verified'],
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
  True: ['good', 'True'],
  False: ['bad', 'False'],
  Unknown: ['warn', 'Unknown'],
}

/** A state of an event, delivery, replay, simulation, lock or condition. Unknown states are shown as they are. */
export function StateBadge({ state }: { readonly state: string }) {
  const [tone, label] = stateTones[state] ?? (['quiet', state] as const)
  return <Badge tone={tone}>{label}</Badge>
}

/** Text such as an id, with a copy button where scripts run. */
export function Copy({
  text,
  label,
  shown,
}: {
  readonly text: string
  readonly label: string
  readonly shown?: string
}) {
  return (
    <span class="copy">
      <code>{shown ?? text}</code>
      <CopyButton text={text} label={label} />
    </span>
  )
}

/** A copy button, hidden without scripts. */
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

/** Text in a block that scrolls, with a copy button. */
export function CodeBlock({
  text,
  label,
}: {
  readonly text: string
  /** Name for screen readers and the button. */
  readonly label: string
}) {
  return (
    <div class="code-block">
      <CopyButton text={text} label={`Copy ${label}`} />
      <pre role="region" aria-label={label} tabIndex={0}>
        <code>{text}</code>
      </pre>
    </div>
  )
}
