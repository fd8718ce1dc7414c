import type { ComponentChildren } from 'preact'
import { useContext } from 'preact/hooks'
import { ReaderClockContext, type TimeFormat, timeText, utcText, utcZone } from './clock.ts'

const dayMs = 86_400_000

/** Renders a time in the reader's time zone, and in UTC on hover. */
export function Time({ atMs, format = 'short' }: { readonly atMs: number; readonly format?: TimeFormat }) {
  const clock = useContext(ReaderClockContext)
  return (
    <time datetime={new Date(atMs).toISOString()} title={utcText(atMs)}>
      {timeText(atMs, format, clock)}
    </time>
  )
}

/** Renders how long ago a time was, or how far ahead it is. Shows the exact time on hover. */
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

/** Formats a duration in at most its two largest units: `480 ms`, `2.4 s`, `3 min 20 s`, `2 d 4 h`. */
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

/** Formats a number in short form, for tiles and axes: `12.5K`. */
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

/** Meaning of a colour. The text next to the colour must state the same meaning. */
export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'quiet'

/** Renders a state as a coloured word. */
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

/** Renders the state of an event, delivery, replay, simulation, lock or condition. An unknown state is shown unchanged. */
export function StateBadge({ state }: { readonly state: string }) {
  const [tone, label] = stateTones[state] ?? (['quiet', state] as const)
  return <Badge tone={tone}>{label}</Badge>
}

interface CopyParts {
  readonly text: string
  readonly label: string
}

/** Renders text such as an id, with a copy button if scripts run. */
export function Copy({ text, label, shown }: CopyParts & { readonly shown?: string }) {
  return (
    <span class="copy">
      <code>{shown ?? text}</code>
      <CopyButton text={text} label={label} />
    </span>
  )
}

/** Renders a copy button, which is hidden without scripts. */
export function CopyButton({ text, label }: CopyParts) {
  return (
    <button type="button" class="copy-button" data-copy={text} title={label} hidden>
      <Icon name="copy" />
      <span class="visually-hidden" data-said aria-live="polite">
        {label}
      </span>
    </button>
  )
}

/** SVG paths on a 16 by 16 grid. */
const strokes = {
  overview: 'M2.5 13.5v-4m3.7 4V5.2m3.6 8.3V8m3.7 5.5v-11',
  events: 'M9 1.8 3.5 9h4L7 14.2 12.5 7h-4z',
  refused: 'M8 1.8 2.8 3.9v3.9c0 3.2 2.2 5.4 5.2 6.4 3-1 5.2-3.2 5.2-6.4V3.9zM6.2 6.2l3.6 3.6m0-3.6L6.2 9.8',
  replays: 'M13.2 8A5.2 5.2 0 1 1 11.6 4.3M13.4 2v2.9h-2.9',
  simulations: 'M6.3 1.8h3.4M7 1.8v4L3.2 12.6c-.4.8.1 1.6 1 1.6h7.6c.9 0 1.4-.8 1-1.6L9 5.8v-4M5 10h6',
  eventTypes: 'M2 2.4h5.2l6.6 6.6-4.8 4.8L2.4 7.2zM5 5h.2',
  locks: 'M3.5 7.2h9v7h-9zM5.5 7.2V4.8a2.5 2.5 0 0 1 5 0v2.4M8 10v1.6',
  tenants: 'M2 14.2V3.4l6-1.6v12.4m0-8.4 6 1.6v6.8M1.4 14.2h13.2M4.6 6.2h.8m-.8 3h.8m5-.4h.8m-.8 2.6h.8',
  usage: 'M2.2 11.6a6.2 6.2 0 1 1 11.6 0M8 10.4l2.8-3.6',
  settings: 'M2 4.4h6.2m3.4 0H14M2 11.6h2.4m3.4 0H14M9.9 2.7v3.4M6.1 9.9v3.4',
  audit: 'M3.2 1.8h9.6v12.4H3.2zM5.6 5h4.8M5.6 8h4.8M5.6 11h2.6',
  documentation:
    'M8 4.2C6.6 3 4.6 2.6 2 2.8v9.8c2.6-.2 4.6.2 6 1.4 1.4-1.2 3.4-1.6 6-1.4V2.8c-2.6-.2-4.6.2-6 1.4zm0 0v9.8',
  search: 'M7 2.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.6zm3.6 8.4 3.2 3.2',
  copy: 'M5.4 5.4h8.4v8.4H5.4zM3.6 10.6H2.2V2.2h8.4v1.4',
  next: 'm6 3.4 4.6 4.6L6 12.6',
  previous: 'M10 3.4 5.4 8l4.6 4.6',
  menu: 'M2.2 4h11.6M2.2 8h11.6M2.2 12h11.6',
  sun: 'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1.4v1.2m0 10.8v1.2M1.4 8h1.2m10.8 0h1.2M3.3 3.3l.9.9m7.6 7.6.9.9m0-9.4-.9.9m-7.6 7.6-.9.9',
  moon: 'M13.6 9.6A6 6 0 0 1 6.4 2.4 6 6 0 1 0 13.6 9.6z',
  system: 'M2 3h12v8H2zM5.6 13.6h4.8M8 11v2.6',
  leave: 'M9.4 2.6H3v10.8h6.4M6.6 8h7.2m-2.6-2.6L13.8 8l-2.6 2.6',
  clock: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zm0 2.8V8l2.2 1.6',
  check: 'm3 8.4 3.2 3.2L13 4.8',
  warning: 'M8 2.2 1.8 13.4h12.4zM8 6.6v3.2m0 1.8v.2',
  info: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zm0 5.2v3.6m0-6v.2',
  lock: 'M3.5 7.2h9v7h-9zM5.5 7.2V4.8a2.5 2.5 0 0 1 5 0v2.4',
  empty: 'M2 9.4 4 3h8l2 6.4v3.8H2zm0 0h3.6l.8 1.6h3.2l.8-1.6H14',
} as const

/** Name of an icon. */
export type IconName = keyof typeof strokes

/** Renders an icon in the colour of its text, hidden from screen readers. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={strokes[name]} />
    </svg>
  )
}
