import type { ComponentChildren } from 'preact'
import { type Actor, actorName } from '#internal/access/index.ts'
import type { TenantSummary } from '#internal/backoffice/index.ts'
import { Live, Notice } from './components/block.tsx'
import { utcZone } from './components/clock.ts'
import { PostForm, Submit } from './components/form.tsx'
import { Icon, Time } from './components/text.tsx'
import type { Preferences } from './cookies.ts'
import { documentationPath } from './documentation/documentation.tsx'
import { forTenant, link, type SectionName, sections } from './page.ts'

export interface FrameParts extends Preferences {
  readonly actor: Actor
  readonly csrfToken: string
  readonly endsAtMs: number
  /** Omit for pages outside the navigation. */
  readonly section?: SectionName
  readonly here: string
  readonly tenant: TenantSummary | undefined
  /** Blockers of the tenant, or of all tenants; undefined if unknown. `notices` is null on the overview, which lists blockers itself. */
  readonly blockers:
    | {
        /** Version of the status that the page shows. The live stream compares it with the current version. */
        readonly version: string
        readonly notices: ComponentChildren
      }
    | undefined
  readonly children: ComponentChildren
}

export function Frame(parts: FrameParts) {
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Sidebar {...parts} />
      <main id="main" tabIndex={-1}>
        {parts.blockers === undefined ? (
          <FlashNotice {...parts} />
        ) : (
          <Live id="blockers" here={parts.here} every="status" isHeld>
            <FlashNotice {...parts} />
            {parts.blockers.notices}
          </Live>
        )}
        {parts.children}
        <div class="news-bar" role="status" data-news-bar>
          <p hidden>
            <span /> <a>Show</a>
          </p>
        </div>
        <div id="live" hx-sse:connect={link('/live', { seen: parts.blockers?.version })} />
      </main>
      <JumpDialog {...parts} />
    </div>
  )
}

/** Renders the message of the last action. Refreshes with the blockers, so that the message is marked as past when the blockers change. */
function FlashNotice({ flash }: Pick<FrameParts, 'flash'>) {
  return flash === undefined ? null : (
    <Notice tone={flash.tone} id="flash">
      {flash.text}
      {flash.link && (
        <>
          {' '}
          <a href={flash.link.path}>{flash.link.label}</a>
        </>
      )}
    </Notice>
  )
}

function Sidebar(parts: FrameParts) {
  return (
    <header class="sidebar">
      <div class="brand-row">
        <a class="brand" href={link('/', { tenant: tenantParam(parts) })}>
          <Mark />
          Latchkey
        </a>
        <a class="menu-link" href="#menu">
          <Icon name="menu" />
          <span>Menu</span>
        </a>
      </div>
      <div class="menu" id="menu">
        <JumpForm {...parts} />
        <TenantChoice {...parts} />
        <Navigation {...parts} />
        <Account {...parts} />
        <a class="menu-close" href="#main">
          Close menu
        </a>
      </div>
    </header>
  )
}

function JumpForm(parts: FrameParts) {
  const tenant = tenantParam(parts)
  return (
    <form class="jump-form go" method="get" action="/jump" role="search" aria-label="Jump to">
      <input
        name="find"
        type="text"
        placeholder="Jump to…"
        maxLength={200}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        aria-label="Jump to a tenant, an event, a replay, a type, a setting or a page"
      />
      {tenant !== undefined && <input type="hidden" name="tenant" value={tenant} />}
      <button type="submit" title="Find">
        <Icon name="search" />
        <span class="visually-hidden">Find</span>
      </button>
    </form>
  )
}

/** Renders the dialog of ⌘K, which the script opens and fills. */
function JumpDialog(parts: FrameParts) {
  const tenant = tenantParam(parts)
  return (
    <dialog class="jump" aria-label="Jump to a tenant, an event, a replay, a type, a setting or a page">
      <form method="get" action="/jump">
        <input
          name="find"
          type="text"
          placeholder="Tenant, event, type, setting or page"
          maxLength={200}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          role="combobox"
          aria-label="Tenant, event, type, setting or page"
          aria-autocomplete="list"
          aria-expanded="false"
          aria-controls="jump-list"
        />
        {tenant !== undefined && <input type="hidden" name="tenant" value={tenant} />}
      </form>
      <div role="listbox" id="jump-list" aria-label="Results" />
      <p role="status" class="muted" />
    </dialog>
  )
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" />
      <g>
        <circle cx="12" cy="13" r="4.6" />
        <path d="M15.4 16.4 23.5 24.5M19.6 20.6l2.6-2.6" />
      </g>
    </svg>
  )
}

/** Returns the tenant to name in links. Returns undefined for a tenant's key, which has only one tenant. */
function tenantParam({ actor, tenant }: Pick<FrameParts, 'actor' | 'tenant'>): string | undefined {
  return actor.kind === 'tenantKey' ? undefined : tenant?.id
}

function Navigation(parts: FrameParts) {
  const groups = [...new Set(sections.map(({ group }) => group))]
  return (
    <nav class="navigation" aria-label="Main">
      {groups.map((group) => (
        <div class="nav-group">
          <p class="nav-title">{group}</p>
          <ul>
            {sections
              .filter((section) => section.group === group)
              .map(({ name, label, path }) => (
                <li>
                  <a
                    href={link(path, { tenant: name === 'tenants' ? undefined : tenantParam(parts) })}
                    {...(name === parts.section && { 'aria-current': 'page' as const })}
                  >
                    <Icon name={name} />
                    {label}
                  </a>
                </li>
              ))}
          </ul>
        </div>
      ))}
      <div class="nav-group">
        <p class="nav-title">Help</p>
        <ul>
          <li>
            <a href={documentationPath}>
              <Icon name="documentation" />
              Documentation
            </a>
          </li>
        </ul>
      </div>
    </nav>
  )
}

function TenantChoice({ actor, tenant, here, namespaces, csrfToken }: FrameParts) {
  const forAll = forTenant(here, undefined)
  if (actor.kind === 'tenantKey')
    return (
      <div class="tenant-choice">
        <p class="nav-title">Tenant</p>
        <p class="tenant-name">{tenant === undefined ? actor.tenantId : tenantName(tenant)}</p>
      </div>
    )
  return (
    <div class="tenant-choice">
      <form method="get" action="/go" role="search" aria-label="Choose a tenant">
        <label for="go-tenant" class="nav-title">
          Tenant
        </label>
        <div class="go">
          <input
            id="go-tenant"
            name="find"
            value={tenant === undefined ? '' : tenantName(tenant)}
            placeholder="All: type slug or id"
            autocomplete="off"
            spellcheck={false}
            maxLength={200}
          />
          <input type="hidden" name="to" value={forAll} />
          <button type="submit" title="Go">
            <Icon name="next" />
            <span class="visually-hidden">Show this tenant</span>
          </button>
        </div>
      </form>
      {tenant !== undefined && (
        <a class="tenant-all" href={forAll.startsWith('/tenants') ? '/tenants' : forAll}>
          Show all tenants
        </a>
      )}
      {actor.kind === 'user' && <Namespaces namespaces={namespaces} here={here} csrfToken={csrfToken} />}
    </div>
  )
}

function Namespaces({ namespaces, here, csrfToken }: Pick<FrameParts, 'namespaces' | 'here' | 'csrfToken'>) {
  return (
    <details class="namespaces">
      <summary>
        Namespaces: <span>{namespaces.length === 0 ? 'all' : namespaces.join(', ')}</span>
      </summary>
      <NamespacesForm namespaces={namespaces} here={here} csrfToken={csrfToken} id="namespaces" />
    </details>
  )
}

export function NamespacesForm(
  props: Pick<FrameParts, 'namespaces' | 'here' | 'csrfToken'> & { readonly id: string },
) {
  const { namespaces, here, csrfToken, id } = props
  return (
    <PostForm action="/namespaces" look="namespaces-form" csrfToken={csrfToken} hidden={{ next: here }}>
      <label for={id}>Show only these; required unless you may see all tenants</label>
      <input id={id} name="namespaces" value={namespaces.join(' ')} spellcheck={false} autocomplete="off" />
      <Submit tone="normal">Save</Submit>
    </PostForm>
  )
}

function tenantName({ slug, namespace, name }: TenantSummary): string {
  return slug ?? `${namespace}/${name}`
}

const themeChoices = [
  ['auto', 'system', 'Follow the system'],
  ['light', 'sun', 'Light'],
  ['dark', 'moon', 'Dark'],
] as const

function Account({ actor, csrfToken, here, theme, endsAtMs, zone, browserZone }: FrameParts) {
  return (
    <div class="account">
      <p class="who" title={actorName(actor)}>
        {actor.kind === 'user' ? actor.username : actorLabel(actor)}
      </p>
      <div class="account-row">
        <PostForm action="/theme" look="theme" csrfToken={csrfToken} hidden={{ next: here }}>
          {themeChoices.map(([value, icon, label]) => (
            <button type="submit" name="theme" value={value} title={label} aria-pressed={theme === value}>
              <Icon name={icon} />
              <span class="visually-hidden">{label}</span>
            </button>
          ))}
        </PostForm>
        <PostForm action="/sign-out" look="sign-out-form" csrfToken={csrfToken}>
          <button type="submit" class="sign-out" title="Sign out">
            <Icon name="leave" />
            <span>Sign out</span>
          </button>
        </PostForm>
      </div>
      {browserZone !== undefined && browserZone !== utcZone && (
        <ClockChoice csrfToken={csrfToken} here={here} zone={zone} browserZone={browserZone} />
      )}
      <p class="zone">
        Times in {zone}. Session ends <Time atMs={endsAtMs} format="minute" />.
      </p>
    </div>
  )
}

function ClockChoice(
  props: Pick<FrameParts, 'csrfToken' | 'here' | 'zone'> & {
    readonly browserZone: string
  },
) {
  const { csrfToken, here, zone, browserZone } = props
  const place = browserZone.split('/').at(-1)?.replaceAll('_', ' ') ?? browserZone
  const choices = [
    ['browser', place, browserZone],
    ['utc', 'UTC', utcZone],
  ] as const
  return (
    <PostForm action="/clock" look="theme clock" csrfToken={csrfToken} hidden={{ next: here }}>
      {choices.map(([value, label, shownZone]) => (
        <button
          type="submit"
          name="clock"
          value={value}
          title={`Show times in ${shownZone}`}
          aria-pressed={shownZone === zone}
        >
          {label}
        </button>
      ))}
    </PostForm>
  )
}

function actorLabel(actor: Exclude<Actor, { kind: 'user' }>): string {
  return actor.kind === 'operator' ? actor.name : `API key ${actor.keyName}`
}
