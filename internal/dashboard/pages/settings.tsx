import type { ListedSetting, SettingName } from '#internal/settings/index.ts'
import { Card, Empty, Notice, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { Ago, Badge, countText } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'

/** Runtime settings of the installation, or of a tenant beside them: what holds, and why. */
export const settingsRow: PageRow = {
  ...{ method: 'GET', path: '/settings', section: 'settings' },
  async show(context) {
    const { backoffice, actor, tenant } = context
    const tenantId = tenant?.id ?? null
    const [listed, permissions, common] = await Promise.all([
      backoffice.settings.list(actor, tenantId),
      backoffice.tenants.permissions(actor, tenantId ?? 'all'),
      tenantId === null ? undefined : backoffice.settings.list(actor, null),
    ])
    // Who sees no installation may still see a tenant's.
    if (listed.kind === 'forbidden' && tenantId === null) return { kind: 'needsTenant' }
    if (listed.kind !== 'ok') return listed
    if (permissions.kind !== 'ok') return permissions
    const mayChange = permissions.value.changeSettings
    const installation = common?.kind === 'ok' ? common.value : undefined
    return shown('Settings', <Settings {...{ context, listed: listed.value, installation, mayChange }} />)
  },
}

interface SettingsParts {
  readonly context: PageContext
  readonly listed: readonly ListedSetting[]
  /** Of a tenant's page: the installation's, which hold beside its own; absent where the actor may not see them. */
  readonly installation: readonly ListedSetting[] | undefined
  readonly mayChange: boolean
}

const groups = [
  { title: 'Forwarding', note: 'what is sent to callbacks', begins: 'forwarding.' },
  { title: 'Providers', note: 'whose calls are taken', begins: 'providers.' },
  { title: 'Logs', note: 'what each process writes', begins: 'log.' },
  { title: 'Limits', note: 'for tenants that leave them open', begins: 'limits.' },
  { title: 'Retention', note: 'for tenants that leave it open', begins: 'retention.' },
] as const

function Settings(parts: SettingsParts) {
  const { context, listed, mayChange } = parts
  const { tenant } = context
  const name = tenant && (tenant.displayName ?? tenant.slug ?? tenant.name)
  return (
    <>
      <PageHeader
        title="Settings"
        lead={
          name === undefined
            ? 'What holds for the whole installation, in force in every process within two seconds.'
            : `What holds for ${name} alone, beside the settings of the installation.`
        }
      >
        {tenant !== undefined && context.actor.kind !== 'tenantKey' && (
          <LinkButton href="/settings">Settings of the installation</LinkButton>
        )}
      </PageHeader>
      {!mayChange && (
        <Notice tone="info">
          {context.actor.kind === 'tenantKey' ? (
            'You may look at these settings. The platform team changes them.'
          ) : (
            <>
              You may look at these settings. To change them your role has to allow{' '}
              <code>update tenants/settings</code>
              {tenant === undefined && ' for the whole cluster'}.
            </>
          )}
        </Notice>
      )}
      <div class="settings">
        {groups.map(({ title, note, begins }) => {
          const rows = listed.filter((setting) => setting.name.startsWith(begins))
          return rows.length > 0 && <SettingGroup key={title} {...{ ...parts, title, note, rows }} />
        })}
      </div>
    </>
  )
}

interface GroupParts extends SettingsParts {
  readonly title: string
  readonly note: string
  readonly rows: readonly ListedSetting[]
}

function SettingGroup({ title, note, rows, context, installation, mayChange }: GroupParts) {
  return (
    <Card title={title} note={note}>
      <Table<ListedSetting>
        caption={title}
        rows={rows}
        keyOf={({ name }) => name}
        empty={<Empty title="There is none" />}
        columns={[
          { title: 'Setting', isWide: true, cell: (setting) => <SettingHead {...setting} /> },
          { title: 'In force', cell: (setting) => <InForce {...{ setting, installation }} /> },
          { title: 'Why', cell: (setting) => <Why {...{ setting, installation, nowMs: context.nowMs }} /> },
          ...(mayChange
            ? [
                {
                  title: 'Change',
                  cell: (setting: ListedSetting) => (
                    <Change setting={setting} tenantId={context.tenant?.id} />
                  ),
                },
              ]
            : []),
        ]}
      />
    </Card>
  )
}

function SettingHead({ name, definition }: ListedSetting) {
  return (
    <span class="stacked">
      <code>{name}</code>
      <span class="muted wraps">{definition.doc}</span>
    </span>
  )
}

/** The installation's value, where that alone decides: a pause of either is one. */
function pausedByAll(
  name: SettingName,
  installation: SettingsParts['installation'],
): ListedSetting | undefined {
  return installation?.find((each) => each.name === name && each.value === true)
}

interface Setting extends Pick<SettingsParts, 'installation'> {
  readonly setting: ListedSetting
}

function InForce({ setting: { name, value }, installation }: Setting) {
  const isOn = value === true || pausedByAll(name, installation) !== undefined
  if (name.endsWith('.paused'))
    return isOn ? <Badge tone="warn">Paused</Badge> : <Badge tone="good">Runs</Badge>
  return <span class="number">{valueText(value)}</span>
}

/** A setting's value as people read it. Pure. */
export function valueText(value: ListedSetting['value']): string {
  if (value === null) return 'none'
  return typeof value === 'number' ? countText(value) : String(value)
}

function Why({
  setting: { name, stored, value },
  installation,
  nowMs,
}: Setting & { readonly nowMs: number }) {
  const byAll = value === true ? undefined : pausedByAll(name, installation)
  const set = byAll?.stored ?? stored
  if (set === undefined) return <span class="muted">default</span>
  return (
    <span class="stacked">
      <span class="wraps">
        {byAll !== undefined && 'for the whole installation, '}by {set.updatedBy}
      </span>
      <span class="muted">
        <Ago atMs={set.updatedAtMs} nowMs={nowMs} />, version {set.version}
      </span>
    </span>
  )
}

function Change({
  setting: { name, stored },
  tenantId,
}: {
  readonly setting: ListedSetting
  readonly tenantId: string | undefined
}) {
  return (
    <span class="buttons">
      <a href={link('/settings/change', { name, tenant: tenantId })} aria-label={`Change ${name}`}>
        Change
      </a>
      {stored !== undefined && (
        <a href={link('/settings/clear', { name, tenant: tenantId })} aria-label={`Clear ${name}`}>
          Clear
        </a>
      )}
    </span>
  )
}
