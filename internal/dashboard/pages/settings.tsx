import { providerFormField } from '#internal/backoffice/index.ts'
import { type ListedSetting, parseSettingText, type SettingName } from '#internal/settings/index.ts'
import { Card, Facts, Live, Notice, PageHeader } from '../components/block.tsx'
import { type Field, Fields, FormPage, LinkButton, Submit } from '../components/form.tsx'
import { type Column, Table } from '../components/list.tsx'
import { Ago, Badge, countText } from '../components/text.tsx'
import {
  type ActionRow,
  doneAt,
  link,
  nameOf,
  type PageContext,
  type PageResult,
  type PageRow,
  shown,
  withRightTo,
} from '../page.ts'
import { actionRows } from './action-rows.tsx'
import { clearPath, isPause, type Paused, settingOf } from './attention.tsx'
import { nextOf, readOutlook, resumedAt, resumedText } from './resumption.tsx'

const settingsRow: PageRow = {
  method: 'GET',
  path: '/settings',
  section: 'settings',
  async show(context) {
    const { backoffice, actor, tenant } = context
    const tenantId = tenant?.id ?? null
    const [listed, permissions, blocked] = await Promise.all([
      backoffice.settings.list(actor, tenantId),
      backoffice.tenants.permissions(actor, tenantId ?? 'all'),
      backoffice.attention.blockers(actor, tenant === undefined ? {} : { tenantId: tenant.id }),
    ])
    // A user who may not see the settings of the installation can still see those of a tenant, so the page asks for a tenant.
    if (listed.kind === 'forbidden' && tenantId === null) return { kind: 'needsTenant' }
    if (listed.kind !== 'ok') return listed
    if (permissions.kind !== 'ok') return permissions
    const mayChange = permissions.value.changeSettings
    const pauses = blocked.kind === 'ok' ? blocked.value.blockers.filter(isPause) : []
    const parts = { context, listed: listed.value, pauses, mayChange }
    return shown('Settings', <Settings {...parts} />)
  },
}

interface SettingsParts {
  readonly context: PageContext
  readonly listed: readonly ListedSetting[]
  /** Pauses that apply to all tenants or to the page's tenant. If the page has no tenant, also the pauses of each single tenant. */
  readonly pauses: readonly Paused[]
  readonly mayChange: boolean
}

const groups = [
  { title: 'Forwarding', note: 'deliveries to callbacks', begins: 'forwarding.' },
  { title: 'Providers', note: 'acceptance of their calls', begins: 'providers.' },
  {
    title: 'Records',
    note: 'default for tenants; a change moves the records of all tenants that use it, which takes weeks',
    begins: 'records.',
  },
  { title: 'Logs', note: 'of every process', begins: 'log.' },
  {
    title: 'Limits',
    note: 'defaults for tenants; for usage that services report: latchkey settings set limits.<kind>PerMonth.hard',
    begins: 'limits.',
  },
  { title: 'Retention', note: 'defaults for tenants', begins: 'retention.' },
] as const

function Settings({ context, listed, pauses, mayChange }: SettingsParts) {
  const { tenant, actor } = context
  return (
    <>
      <PageHeader
        title="Settings"
        lead={
          tenant === undefined
            ? 'Runtime settings of the installation. Changes take effect in every process within two seconds.'
            : `Runtime settings of ${nameOf(tenant)}, in addition to those of the installation.`
        }
      >
        {tenant !== undefined && actor.kind !== 'tenantKey' && (
          <LinkButton href="/settings">Settings of the installation</LinkButton>
        )}
      </PageHeader>
      {!mayChange && (
        <Notice tone="info">
          {actor.kind === 'tenantKey' ? (
            'These settings are read-only for you. The platform team changes them.'
          ) : (
            <>
              These settings are read-only for you. Changes need a role with{' '}
              <code>update tenants/settings</code>
              {tenant === undefined && ' for the whole cluster'}.
            </>
          )}
        </Notice>
      )}
      <div class="settings">
        {groups.map(({ title, note, begins }) => {
          const rows = listed.filter(({ name }) => name.startsWith(begins))
          if (rows.length === 0) return null
          const columns = columnsOf({ context, pauses, mayChange })
          const id = `settings-${begins.replace('.', '')}`
          const stable = { id, rowId: ({ name }: ListedSetting) => name }
          const table = <Table<ListedSetting> caption={title} rows={rows} columns={columns} stable={stable} />
          return (
            <Card title={title} note={note}>
              {rows.some(({ name }) => name.endsWith('.paused')) ? (
                <Live id={`${id}-live`} here={context.here} every="status">
                  {table}
                </Live>
              ) : (
                table
              )}
              {begins === 'providers.' && mayChange && <OtherProvider tenant={tenant} />}
            </Card>
          )
        })}
      </div>
    </>
  )
}

/** Renders a form that opens the pause of a provider that the table does not list, such as a shipped declaration. */
function OtherProvider({ tenant }: Pick<PageContext, 'tenant'>) {
  const field = { ...providerFormField, label: 'Another provider', isRequired: true }
  return (
    <form class="filters" method="get" action={changePath}>
      {tenant !== undefined && <input type="hidden" name="tenant" value={tenant.id} />}
      <Fields fields={[field]} idPrefix="pause" />
      <div class="filter-buttons">
        <Submit tone="normal">Change its pause</Submit>
      </div>
    </form>
  )
}

/** Maximum number of tenants that the page names as paused, so that the page stays within 20 KB. */
const namedMax = 200

function columnsOf({
  context,
  pauses,
  mayChange,
}: Omit<SettingsParts, 'listed'>): readonly Column<ListedSetting>[] {
  const { tenant } = context
  const change: Column<ListedSetting> = {
    title: 'Change',
    cell: ({ name, stored }) => (
      <span class="buttons">
        <a href={link(changePath, { name, tenant: tenant?.id })} aria-label={`Change ${name}`}>
          Change
        </a>
        {stored !== undefined && (
          <a href={link(clearPath, { name, tenant: tenant?.id })} aria-label={`Clear ${name}`}>
            Clear
          </a>
        )}
      </span>
    ),
  }
  return [
    {
      title: 'Setting',
      isWide: true,
      cell: ({ name, definition }) => (
        <span class="stacked" id={name}>
          <code>{name}</code>
          <span class="muted wraps">{definition.doc}</span>
        </span>
      ),
    },
    {
      title: 'Value',
      cell: (setting) => <EffectiveValue setting={setting} pauses={pauses} context={context} />,
    },
    { title: 'Set by', cell: (setting) => <Origin setting={setting} pauses={pauses} context={context} /> },
    ...(mayChange ? [change] : []),
  ]
}

/** Returns the installation's pause, which applies to every tenant. */
function pauseOfAll(name: SettingName, pauses: readonly Paused[]): Paused | undefined {
  return pauses.find((pause) => pause.tenantId === null && settingOf(pause) === name)
}

interface SettingParts extends Pick<SettingsParts, 'pauses' | 'context'> {
  readonly setting: ListedSetting
}

function EffectiveValue({ setting: { name, value }, pauses, context }: SettingParts) {
  if (!name.endsWith('.paused')) return <span class="number">{valueText(value)}</span>
  const isOn = value === true || pauseOfAll(name, pauses) !== undefined
  const owners =
    context.tenant === undefined
      ? pauses.flatMap((pause) =>
          pause.tenantId !== null && settingOf(pause) === name ? [pause.tenantId] : [],
        )
      : []
  return (
    <span class="stacked">
      {isOn ? <Badge tone="warn">Paused</Badge> : <Badge tone="good">Running</Badge>}
      {owners.length > 0 && (
        <span class="muted wraps">
          {isOn ? 'also ' : 'but '}paused for{' '}
          {owners.slice(0, namedMax).map((id, nth) => (
            <>
              {nth > 0 && ', '}
              <a href={link('/settings', { tenant: id })}>{context.tenantLabel(id)}</a>
            </>
          ))}
          {owners.length > namedMax && ` and ${countText(owners.length - namedMax)} more`}
        </span>
      )}
    </span>
  )
}

export function valueText(value: ListedSetting['value']): string {
  if (value === null) return 'none'
  return typeof value === 'number' ? countText(value) : String(value)
}

function Origin({ setting: { name, stored, value }, pauses, context: { nowMs } }: SettingParts) {
  const byAll = value === true ? undefined : pauseOfAll(name, pauses)
  if (byAll === undefined && stored === undefined) return <span class="muted">default</span>
  return (
    <span class="stacked">
      <span class="wraps">
        {byAll !== undefined ? `for the whole installation, by ${byAll.by}` : `by ${stored?.updatedBy}`}
      </span>
      <span class="muted">
        <Ago atMs={byAll?.startedAtMs ?? stored?.updatedAtMs ?? nowMs} nowMs={nowMs} />
        {byAll === undefined && `, version ${stored?.version}`}
      </span>
    </span>
  )
}

const changePath = '/settings/change'

const changeFormRow: PageRow = {
  method: 'GET',
  path: changePath,
  section: 'settings',
  show: (context) =>
    withSetting(context, settingIn(context.query), (setting) =>
      showForm({ context, setting, typed: setting.value === null ? '' : String(setting.value) }),
    ),
}

/** Changes a setting if its version is still the version that the form showed. */
const changeRow: ActionRow = {
  method: 'POST',
  path: changePath,
  section: 'settings',
  back: changePath,
  backKeeps: ['name'],
  act: (context) =>
    withSetting(context, context.form['name'], async (setting) => {
      const { backoffice, actor, form, tenant } = context
      const { name } = setting
      const typed = form['value'] ?? ''
      const written = await backoffice.settings.write(actor, {
        name,
        tenantId: tenant?.id ?? null,
        value: parseSettingText(typed),
        expectedVersion: versionIn(form['version']),
      })
      if (written.kind === 'invalid') return showForm({ context, setting, typed, problem: written.problem })
      if (written.kind === 'conflict') return showForm({ context, setting, typed, conflict: written.problem })
      if (written.kind !== 'ok') return written
      const { isNew, previousValue } = written.value
      if (isNew && name.endsWith('.paused') && previousValue === true)
        return resumedAt(listOf(context), context, { tenantId: tenant?.id, setting: name })
      const done = `${name} was set; it takes effect within two seconds.`
      return doneAt(listOf(context), written.value, done, `${name} already has this value.`)
    }),
}

/** Returns the name of the setting to change. A query with a `provider` means the setting that pauses this provider. */
function settingIn({ name, provider }: PageContext['query']): string | undefined {
  return provider === undefined ? name : `providers.${provider.trim()}.paused`
}

async function withSetting(
  context: PageContext,
  name: string | undefined,
  proceed: (setting: ListedSetting) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const found = await findSetting(context, { name: name ?? '' })
  if (found.kind !== 'found') return found
  return withRightTo(context, found.owner, 'changeSettings', () => proceed(found.subject))
}

async function findSetting(
  { backoffice, actor, tenant }: PageContext,
  fields: Readonly<Record<string, string>>,
) {
  const named = { name: fields['name'] ?? '', tenantId: tenant?.id ?? null }
  const read = await backoffice.settings.read(actor, named)
  if (read.kind !== 'ok') return read
  return { kind: 'found', subject: read.value, owner: tenant?.id ?? 'all' } as const
}

/** Parses the version in a form. Returns 0 for a missing version, so that the change conflicts with any stored value. */
function versionIn(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0
}

function listOf({ tenant }: Pick<PageContext, 'tenant'>): string {
  return link('/settings', { tenant: tenant?.id })
}

function ownerText({ tenant }: Pick<PageContext, 'tenant'>): string {
  return tenant === undefined ? 'for the whole installation' : `for ${tenant.slug ?? tenant.name}`
}

function showForm(form: {
  readonly context: PageContext
  readonly setting: ListedSetting
  readonly typed: string
  readonly problem?: string
  /** Text about a change that was made after the form was shown. */
  readonly conflict?: string
}) {
  const { context, setting, typed, problem, conflict } = form
  const { name, definition, stored, value } = setting
  return shown(
    'Change a setting',
    <FormPage
      crumb="Settings"
      action={changePath}
      csrfToken={context.csrfToken}
      lead={definition.doc}
      title={<code>{name}</code>}
      card={`Change ${ownerText(context)}`}
      problem={
        conflict === undefined
          ? undefined
          : {
              title: 'This setting was changed in the meantime',
              text: `${conflict}. Your value is kept below: check the current value, then send the form again.`,
            }
      }
      hidden={{ name, tenant: context.tenant?.id, version: String(stored?.version ?? 0) }}
      fields={[fieldOf(setting, typed, problem)]}
      button="Change the setting"
      back={listOf(context)}
    >
      <Facts
        facts={[
          ['Now', valueText(value)],
          ['Default', valueText(definition.default)],
          ['Set by', stored?.updatedBy],
          ['Set', stored && <Ago atMs={stored.updatedAtMs} nowMs={context.nowMs} />],
          ['Version', stored && String(stored.version)],
        ]}
      />
    </FormPage>,
    conflict !== undefined ? 409 : problem === undefined ? 200 : 422,
  )
}

function fieldOf({ name, definition }: ListedSetting, typed: string, problem: string | undefined): Field {
  const common = { name: 'value', label: 'Value', value: typed, problem }
  if (name.endsWith('.paused')) {
    const choices = [
      { value: 'false', label: 'Running (false)' },
      { value: 'true', label: 'Paused (true)' },
    ]
    return { kind: 'choice', choices, ...common }
  }
  if (name.endsWith('.over'))
    return {
      kind: 'choice',
      ...common,
      choices: ['accept', 'refuse'].map((value) => ({ value, label: value })),
    }
  return {
    kind: 'text',
    isRequired: true,
    isShort: true,
    charsMax: 20,
    ...common,
    ...(problem === undefined && { hint: `Expected: ${definition.expected}.` }),
  }
}

function isPauseSetting({ name, value }: Pick<ListedSetting, 'name' | 'value'>): boolean {
  return name.endsWith('.paused') && value === true
}

const clearRows = actionRows<ListedSetting>({
  path: clearPath,
  section: 'settings',
  back: '/settings',
  title: 'Clear a setting',
  right: 'changeSettings',
  find: findSetting,
  async ask({ name, stored, definition, value }, context) {
    const { next } = context.query
    const hidden = { name, tenant: context.tenant?.id, version: String(stored?.version ?? 0), next }
    const back = nextOf(next, listOf(context))
    if (isPauseSetting({ name, value })) {
      const resumption = { tenantId: context.tenant?.id, setting: name }
      const what = resumedText(context, resumption)
      return {
        hidden,
        back,
        question: `Resume ${what}?`,
        button: 'Resume',
        text: <p>{(await readOutlook(context, resumption)).text}</p>,
      }
    }
    return {
      question: `Clear ${name}?`,
      button: 'Clear the setting',
      tone: 'danger',
      hidden,
      back,
      text: (
        <p>
          Its value is <strong>{valueText(value)}</strong> {ownerText(context)}. After clearing, the default
          applies: <strong>{valueText(definition.default)}</strong>.
        </p>
      ),
    }
  },
  async act({ name, value }, context) {
    const { backoffice, actor, form, tenant } = context
    const expectedVersion = versionIn(form['version'])
    const cleared = await backoffice.settings.clear(actor, {
      name,
      tenantId: tenant?.id ?? null,
      expectedVersion,
    })
    if (cleared.kind !== 'ok') return cleared
    const change = { isNew: cleared.value.existed }
    if (change.isNew && isPauseSetting({ name, value }))
      return resumedAt(nextOf(form['next'], listOf(context)), context, {
        tenantId: tenant?.id,
        setting: name,
      })
    return doneAt(listOf(context), change, `${name} was cleared.`, `${name} was not set.`)
  },
})

export const settingRows = [settingsRow, changeFormRow, changeRow, ...clearRows] as const
