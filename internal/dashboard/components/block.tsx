import type { ComponentChildren } from 'preact'
import { Icon, type IconName } from './icon.tsx'
import type { Tone } from './text.tsx'

/** A step on the way to a page. */
export interface Crumb {
  readonly label: string
  readonly path: string
}

/** The head of a page: where it is, what it is, and what can be done. The one `h1` of the page. */
export function PageHeader({
  title,
  lead,
  crumbs = [],
  badge,
  children,
}: {
  readonly title: ComponentChildren
  /** One sentence on what is to be seen. */
  readonly lead?: ComponentChildren
  readonly crumbs?: readonly Crumb[]
  readonly badge?: ComponentChildren
  /** Buttons and links to what can be done. */
  readonly children?: ComponentChildren
}) {
  return (
    <header class="page-header">
      <div>
        {crumbs.length > 0 && (
          <nav class="crumbs" aria-label="Breadcrumb">
            {crumbs.map(({ label, path }) => (
              <span key={path}>
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

/** A part of a page with a heading. */
export function Card({
  title,
  note,
  actions,
  children,
}: {
  readonly title: string
  /** A few words beside the heading. */
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}) {
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

/** One name with its value; values that are undefined are left out of the list. */
export type Fact = readonly [name: string, value: ComponentChildren]

/** Names with values. */
export function Facts({ facts }: { readonly facts: readonly (Fact | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact !== undefined &&
          fact[1] !== undefined && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

const noticeIcons = { good: 'check', bad: 'warning', warn: 'warning', info: 'info', quiet: 'info' } as const

/** Something that everybody on the page should read. */
export function Notice({
  tone,
  title,
  children,
}: {
  readonly tone: Tone
  readonly title?: string
  readonly children?: ComponentChildren
}) {
  return (
    <div class={`notice is-${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <Icon name={noticeIcons[tone]} />
      <div>
        {title !== undefined && <strong>{title}</strong>}
        {children !== undefined && <div>{children}</div>}
      </div>
    </div>
  )
}

/** What stands where a list would, or a page: why there is nothing, and what to do. */
export function Empty({
  icon = 'empty',
  title,
  children,
}: {
  readonly icon?: IconName
  readonly title: string
  readonly children?: ComponentChildren
}) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="empty-text">{children}</div>}
    </div>
  )
}

/** Numbers at a glance. */
export function Tiles({ children }: { readonly children: ComponentChildren }) {
  return <div class="tiles">{children}</div>
}

/** One number at a glance. */
export function Tile({
  label,
  value,
  note,
  tone,
  href,
}: {
  readonly label: string
  readonly value: ComponentChildren
  readonly note?: ComponentChildren
  readonly tone?: Tone | undefined
  /** Where the number is told in detail. */
  readonly href?: string | undefined
}) {
  return (
    <div class={`tile${tone === undefined ? '' : ` is-${tone}`}`}>
      <div class="tile-label">{href === undefined ? label : <a href={href}>{label}</a>}</div>
      <div class="tile-value">{value}</div>
      {note !== undefined && <div class="tile-note">{note}</div>}
    </div>
  )
}

/** How much of a limit is used, as a bar; the words beside it have to say it too. `share` from 0, over 1 when exceeded. */
export function ShareBar({
  share,
  label,
  tone = 'info',
}: {
  readonly share: number
  readonly label: string
  readonly tone?: Tone
}) {
  const width = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 1)) * 100
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
    </svg>
  )
}

/**
 * A part of a page that is asked for anew while somebody looks: every 3 s, or every 15 s. Nothing but its own content changes; what
 * is open or focused in it stays so. Without scripts it is as it was when the page was loaded.
 */
export function Live({
  id,
  here,
  every = 'tick',
  children,
}: {
  /** Unique on the page. */
  readonly id: string
  /** The page's own address: `context.here`. */
  readonly here: string
  readonly every?: 'tick' | 'slow'
  readonly children: ComponentChildren
}) {
  return (
    <div
      id={id}
      class="live"
      hx-get={here}
      hx-trigger={`${every} from:#live`}
      hx-select={`#${id}`}
      hx-target={`#${id}`}
      hx-swap="outerMorph"
    >
      {children}
    </div>
  )
}
