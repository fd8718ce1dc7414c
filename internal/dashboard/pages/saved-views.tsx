import { type SavedView, viewNameCharsMax } from '#internal/access/index.ts'
import { type Field, filled, PostForm, readFields, Submit, type Texts } from '../components/form.tsx'
import { appliedTimes } from '../components/received.ts'
import { type ActionRow, doneAt, link, type PageContext } from '../page.ts'
import type { Form } from '../request.ts'

const listPath = '/events'
const savePath = '/events/views'
const deletePath = '/events/views/delete'

/**
 * Returns the part of a query that a saved view keeps: the fields of the list, with times in UTC, and the tenant's id, but not the cursor.
 * Spans such as the last 24 hours stay relative.
 */
function keptOf(fields: readonly Field[], typed: Form, { actor, tenant }: PageContext): Texts {
  const values = filled(fields, appliedTimes(typed), {}).map(({ name, value }) => [name, value] as const)
  return { tenant: actor.kind === 'tenantKey' ? undefined : tenant?.id, ...Object.fromEntries(values) }
}

const queryText = (kept: Texts) => link('', kept).slice(1)

export async function savedViews(context: PageContext, fields: readonly Field[]) {
  const listed = await context.backoffice.views.list(context.actor)
  if (listed.kind !== 'ok') return undefined
  const views = listed.value.items
  const kept = keptOf(fields, context.query, context)
  const query = queryText(kept)
  if (views.length === 0 && query === '') return undefined
  const current = views.find((view) => view.query === query)
  return (
    <div class="saved-views">
      {views.length > 0 && (
        <nav class="saved-view-links" aria-label="Saved views">
          {views.map((view) => (
            <a
              href={`${listPath}?${view.query}`}
              title={view.name}
              {...(view === current && { 'aria-current': 'true' as const })}
            >
              {view.name}
            </a>
          ))}
        </nav>
      )}
      <details>
        <summary>{summaryOf(views, query)}</summary>
        <div class="saved-view-forms">
          {query !== '' && <SaveForm context={context} kept={kept} current={current} />}
          {views.length > 0 && <DeleteForm context={context} kept={kept} views={views} />}
        </div>
      </details>
    </div>
  )
}

function summaryOf(views: readonly SavedView[], query: string): string {
  if (views.length === 0) return 'Save this view'
  return query === '' ? 'Delete views' : 'Save or delete views'
}

interface FormParts {
  readonly context: PageContext
  readonly kept: Texts
}

function SaveForm({ context, kept, current }: FormParts & { readonly current: SavedView | undefined }) {
  return (
    <PostForm action={savePath} csrfToken={context.csrfToken} hidden={kept} look="saved-view-form">
      <div class="field">
        <label for="view-name">Name of this view</label>
        <input
          id="view-name"
          name="name"
          type="text"
          value={current?.name ?? ''}
          required
          maxLength={viewNameCharsMax}
          autocomplete="off"
          aria-describedby="view-name-hint"
        />
      </div>
      <Submit>Save view</Submit>
      <p class="hint" id="view-name-hint">
        Only you see it. A view of the same name is replaced.
      </p>
    </PostForm>
  )
}

/** Renders one form for all views: each button names the view to delete. A form per view would repeat the CSRF token. */
function DeleteForm({ context, kept, views }: FormParts & { readonly views: readonly SavedView[] }) {
  return (
    <PostForm action={deletePath} csrfToken={context.csrfToken} hidden={kept} look="saved-view-list">
      <ul>
        {views.map(({ name }) => (
          <li>
            <span title={name}>{name}</span>
            <button type="submit" class="button is-plain" name="name" value={name}>
              Delete<span class="visually-hidden"> view {name}</span>
            </button>
          </li>
        ))}
      </ul>
    </PostForm>
  )
}

export function savedViewRows(fields: readonly Field[]): readonly ActionRow[] {
  const form = {
    method: 'POST',
    section: 'events',
    back: listPath,
    backKeeps: fields.map(({ name }) => name),
  } as const
  return [
    {
      ...form,
      path: savePath,
      async act(context) {
        const { backoffice, actor, tenant, form: typed } = context
        const [problem] = Object.values(readFields(fields, typed).problems)
        if (problem !== undefined) return { kind: 'invalid', problem }
        const name = (typed['name'] ?? '').normalize('NFC')
        const query = queryText(keptOf(fields, typed, context))
        const saved = await backoffice.views.save(actor, { name, query, tenantId: tenant?.id })
        if (saved.kind !== 'ok') return saved
        const path = `${listPath}?${query}`
        return doneAt(path, saved.value, `The view “${name}” was saved.`, `The view “${name}” was replaced.`)
      },
    },
    {
      ...form,
      path: deletePath,
      async act(context) {
        const { backoffice, actor, form: typed } = context
        const name = typed['name'] ?? ''
        const removed = await backoffice.views.remove(actor, name)
        if (removed.kind !== 'ok') return removed
        const path = link(listPath, keptOf(fields, typed, context))
        const change = { isNew: removed.value.existed }
        return doneAt(path, change, `The view “${name}” was deleted.`, 'This view was already deleted.')
      },
    },
  ]
}
