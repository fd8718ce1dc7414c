import { type ListedSetting, parseSettingText } from '#internal/settings/index.ts'
import { Card, Facts, Notice, PageHeader } from '../components/block.tsx'
import { Confirm, type Field, Fields, LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Ago } from '../components/text.tsx'
import {
  type ActionRow,
  goTo,
  link,
  type PageContext,
  type PageResult,
  type PageRow,
  shown,
} from '../page.ts'
import { withRightTo } from './rights.ts'
import { valueText } from './settings.tsx'

const path = '/settings/change'
const clearPath = '/settings/clear'

/** The form by which a setting is changed. */
export const settingFormRow: PageRow = {
  ...{ method: 'GET', path, section: 'settings' },
  show: (context) =>
    changing(context, context.query['name'], (setting) =>
      showForm({ context, setting, typed: typedOf(setting) }),
    ),
}

/** Writes a setting, if it is still as it was when the form was made. */
export const settingRow: ActionRow = {
  ...{ method: 'POST', path, section: 'settings', back: path, backKeeps: ['name'] },
  act: (context) =>
    changing(context, context.form['name'], async (setting) => {
      const { backoffice, actor, form, tenant } = context
      const typed = form['value'] ?? ''
      const written = await backoffice.settings.write(actor, {
        ...{ name: setting.name, tenantId: tenant?.id ?? null },
        ...{ value: parseSettingText(typed), expectedVersion: versionIn(form['version']) },
      })
      if (written.kind === 'invalid') return showForm({ context, setting, typed, problem: written.problem })
      if (written.kind === 'conflict') return showForm({ context, setting, typed, conflict: written.problem })
      if (written.kind !== 'ok') return written
      const { isNew } = written.value
      return goTo(
        back(context),
        isNew
          ? `${setting.name} was set; it is in force within two seconds.`
          : `${setting.name} is that already.`,
        isNew ? 'good' : 'info',
      )
    }),
}

/** Asks before a setting is cleared. */
export const askClearRow: PageRow = {
  ...{ method: 'GET', path: clearPath, section: 'settings' },
  show: (context) =>
    changing(context, context.query['name'], ({ name, stored, definition, value }) =>
      shown(
        'Clear a setting',
        <Confirm
          question={`Clear ${name}?`}
          action={clearPath}
          csrfToken={context.csrfToken}
          hidden={{ name, tenant: context.tenant?.id, version: String(stored?.version ?? 0) }}
          button="Clear the setting"
          tone="danger"
          back={back(context)}
        >
          <p>
            It is <strong>{valueText(value)}</strong> {ownerText(context)}. Cleared, the default holds:{' '}
            <strong>{valueText(definition.default)}</strong>.
          </p>
        </Confirm>,
      ),
    ),
}

/** Clears a setting, if it is still as it was when it was asked. */
export const clearRow: ActionRow = {
  ...{ method: 'POST', path: clearPath, section: 'settings', back: '/settings' },
  act: (context) =>
    changing(context, context.form['name'], async ({ name }) => {
      const { backoffice, actor, form, tenant } = context
      const cleared = await backoffice.settings.clear(actor, {
        ...{ name, tenantId: tenant?.id ?? null, expectedVersion: versionIn(form['version']) },
      })
      if (cleared.kind !== 'ok') return cleared
      const { isNew } = cleared.value
      return goTo(
        back(context),
        isNew ? `${name} was cleared.` : `${name} was not set.`,
        isNew ? 'good' : 'info',
      )
    }),
}

async function changing(
  context: PageContext,
  name: string | undefined,
  proceed: (setting: ListedSetting) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const { backoffice, actor, tenant } = context
  const listed = await backoffice.settings.list(actor, tenant?.id ?? null)
  if (listed.kind !== 'ok') return listed
  const setting = listed.value.find((each) => each.name === name)
  if (setting === undefined) return { kind: 'notFound' }
  return withRightTo(context, tenant?.id ?? 'all', 'changeSettings', () => proceed(setting))
}

/** A form without its version expects nothing to be set, which is the careful reading. */
function versionIn(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0
}

function back({ tenant }: Pick<PageContext, 'tenant'>): string {
  return link('/settings', { tenant: tenant?.id })
}

function ownerText({ tenant }: Pick<PageContext, 'tenant'>): string {
  return tenant === undefined ? 'for the whole installation' : `for ${tenant.slug ?? tenant.name}`
}

function typedOf({ value }: ListedSetting): string {
  return value === null ? '' : String(value)
}

interface FormParts {
  readonly context: PageContext
  readonly setting: ListedSetting
  readonly typed: string
  /** What is wrong with the value. */
  readonly problem?: string
  /** What was done by somebody else meanwhile. */
  readonly conflict?: string
}

function showForm(parts: FormParts): PageResult {
  const { problem, conflict } = parts
  const page = shown('Change a setting', <SettingForm {...parts} />)
  if (conflict !== undefined) return { ...page, status: 409 }
  return problem === undefined ? page : { ...page, status: 422 }
}

function SettingForm({ context, setting, typed, problem, conflict }: FormParts) {
  const { name, definition, stored, value } = setting
  return (
    <>
      <PageHeader
        title={<code>{name}</code>}
        crumbs={[{ label: 'Settings', path: back(context) }]}
        lead={definition.doc}
      />
      {conflict !== undefined && (
        <Notice tone="bad" title="Somebody else was faster">
          {conflict}. What you typed is still here: look at what is set now, then send it again.
        </Notice>
      )}
      <Card title={`Change it ${ownerText(context)}`}>
        <Facts
          facts={[
            ['Now', valueText(value)],
            ['Default', valueText(definition.default)],
            ['Set by', stored?.updatedBy],
            ['Set', stored && <Ago atMs={stored.updatedAtMs} nowMs={context.nowMs} />],
            ['Version', stored && String(stored.version)],
          ]}
        />
        <PostForm
          action={path}
          csrfToken={context.csrfToken}
          hidden={{ name, tenant: context.tenant?.id, version: String(stored?.version ?? 0) }}
        >
          <Fields fields={[fieldOf(setting, typed, problem)]} />
          <div class="buttons">
            <Submit>Change the setting</Submit>
            <LinkButton href={back(context)} tone="plain">
              Back
            </LinkButton>
          </div>
        </PostForm>
      </Card>
    </>
  )
}

function fieldOf({ name, definition }: ListedSetting, typed: string, problem: string | undefined): Field {
  const common = { name: 'value', label: 'Value', value: typed, problem }
  const choice = { kind: 'choice', ...common } as const
  if (name.endsWith('.paused'))
    return {
      ...choice,
      choices: [
        { value: 'false', label: 'Runs (false)' },
        { value: 'true', label: 'Paused (true)' },
      ],
    }
  if (name.endsWith('.over'))
    return { ...choice, choices: ['accept', 'refuse'].map((value) => ({ value, label: value })) }
  return {
    ...{ kind: 'text', isRequired: true, isShort: true, charsMax: 20, ...common },
    ...(problem === undefined && { hint: `It has to be ${definition.expected}.` }),
  }
}
