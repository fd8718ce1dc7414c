import type { ComponentChildren } from 'preact'
import { Icon, type IconName, type Tone } from './text.tsx'

export function PageHeader(props: {
  readonly title: ComponentChildren
  readonly lead?: ComponentChildren
  readonly crumbs?: readonly { readonly label: string; readonly path: string }[]
  readonly badge?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  const { title, lead, crumbs = [], badge, children } = props
  return (
    <header class="page-header">
      <div>
        {crumbs.length > 0 && (
          <nav class="crumbs" aria-label="Breadcrumb">
            {crumbs.map(({ label, path }) => (
              <span>
                <a href={path}>{label}</a>
                <Icon name="next" />
              </span>
            ))}
          </nav>
        )}
        <h1>
          {title} {badge}
        </h1>
        {lead !== undefined && <p class="lead">{lead}</p>}
      </div>
      {children !== undefined && <div class="actions">{children}</div>}
    </header>
  )
}

export function Segments(props: {
  readonly label: string
  readonly links: readonly {
    readonly text: string
    readonly href: string
    readonly isCurrent: boolean
    readonly title?: string
  }[]
  readonly isTabs?: boolean
}) {
  const { label, links, isTabs = false } = props
  return (
    <nav class={isTabs ? 'segments tabs' : 'segments'} aria-label={label}>
      {links.map(({ text, isCurrent, ...rest }) => (
        <a {...rest} {...(isCurrent && { 'aria-current': 'true' as const })}>
          {text}
        </a>
      ))}
    </nav>
  )
}

export function Card(props: {
  readonly title: string
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}) {
  const { title, note, actions, children } = props
  return (
    <section class="card" aria-label={title}>
      <header class="card-header">
        <h2>{title}</h2>
        {note !== undefined && <span class="note">{note}</span>}
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

export type Fact = readonly [name: string, value: ComponentChildren]

/** Renders a list of names and values. Omits undefined facts. */
export function Facts({ facts }: { readonly facts: readonly (Fact | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact !== undefined &&
          fact[1] !== undefined && (
            <div>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

const noticeIcons = { good: 'check', bad: 'warning', warn: 'warning', info: 'info', quiet: 'info' } as const

/** Renders a message. Screen readers announce it as an alert if the tone is `bad`. */
export function Notice(props: {
  readonly tone: Tone
  readonly title?: string
  /** HTML id, unique on the page. */
  readonly id?: string
  /** Keeps the notice in place when its cause ends, and delays a new one until the user asks; see `blockerNotices`. Needs id and title. */
  readonly isHeld?: boolean
  readonly children?: ComponentChildren
}) {
  const { tone, title, id, isHeld = false, children } = props
  return (
    <div
      id={id}
      class={`notice is-${tone}`}
      role={tone === 'bad' ? 'alert' : 'status'}
      {...(isHeld && { 'data-notice': title })}
    >
      <Icon name={noticeIcons[tone]} />
      <div>
        {title !== undefined && <strong>{title}</strong>}
        {children !== undefined && <div>{children}</div>}
      </div>
    </div>
  )
}

/** Replaces an empty list or page with the reason and the next step. */
export function Empty(props: {
  readonly icon?: IconName
  readonly title: string
  readonly children?: ComponentChildren
}) {
  const { icon = 'empty', title, children } = props
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="empty-text">{children}</div>}
    </div>
  )
}

export function Tiles({ children }: { readonly children: ComponentChildren }) {
  return <div class="tiles">{children}</div>
}

export function Tile(props: {
  readonly label: string
  readonly value: ComponentChildren
  readonly note?: ComponentChildren
  readonly tone?: Tone | undefined
  readonly href?: string
}) {
  const { label, value, note, tone, href } = props
  return (
    <div class={`tile${tone === undefined ? '' : ` is-${tone}`}`}>
      <div class="tile-label">{href === undefined ? label : <a href={href}>{label}</a>}</div>
      <div class="tile-value">{value}</div>
      {note !== undefined && <div class="tile-note">{note}</div>}
    </div>
  )
}

/** Renders a bar that is full at 1 or more. The page must also state the meaning of the bar in words. */
export function ShareBar(props: {
  readonly share: number
  readonly label: string
  readonly tone?: Tone
  /** Share of failures, drawn after `share`. */
  readonly badShare?: number
}) {
  const { share, label, tone = 'info', badShare = 0 } = props
  const percentOf = (part: number) => Math.max(0, Math.min(1, Number.isFinite(part) ? part : 1)) * 100
  const width = percentOf(share)
  return (
    <svg
      class={`share is-${tone}`}
      viewBox="0 0 100 6"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <rect class="share-rest" width="100" height="6" rx="1" />
      <rect class="share-used" width={width.toFixed(1)} height="6" rx="1" />
      {badShare > 0 && (
        <rect
          class="share-bad"
          x={width.toFixed(1)}
          width={percentOf(badShare).toFixed(1)}
          height="6"
          rx="1"
        />
      )}
    </svg>
  )
}

/**
 * Renders a part of a page that refreshes itself: with `tick` every 3 s, with `slow` every 15 s, and with any value within 2 s after a
 * pause or suspension begins or ends. A refresh keeps open elements open and the focus in place. Without scripts, nothing refreshes.
 */
export function Live(props: {
  readonly id: string
  /** Address of the page, from `context.here`. */
  readonly here: string
  readonly every?: 'tick' | 'slow' | 'status'
  /** True if the script keeps the notices of this part in place during refreshes. */
  readonly isHeld?: boolean
  readonly children: ComponentChildren
}) {
  const { id, here, every = 'tick', isHeld = false, children } = props
  return (
    <div
      id={id}
      class="live"
      hx-get={here}
      hx-trigger={[...new Set([every, 'status'])].map((name) => `${name} from:#live`).join(', ')}
      hx-select={`#${id}`}
      hx-target={`#${id}`}
      hx-swap="outerMorph"
      {...(isHeld && { 'data-hold': '' })}
    >
      {children}
    </div>
  )
}
