import {
  actorName,
  deleteView,
  listSavedViews,
  type SavedView,
  savedViewsMax,
  saveView,
  viewNameCharsMax,
  viewQueryCharsMax,
} from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Done, Removed } from './http-answers.ts'
import { conflict, invalid, ok } from './outcome.ts'
import type { UseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

/** Lists views of the actor by name. */
const list: UseCase<void, { readonly items: readonly SavedView[] }> = async ({ pool, clock }, actor) =>
  ok({ items: await listSavedViews(pool, actorName(actor), clock.now()) })

/** Saves a view. Replaces the actor's view of the same name; `isNew` is then false. */
const save: UseCase<
  SavedView & {
    readonly tenantId?: TenantId | undefined
  },
  Done
> = async (parts, actor, { name, query, tenantId: named }) => {
  if (name === '' || name.length > viewNameCharsMax || /[\p{Cc}\p{Cf}]/u.test(name))
    return invalid(`A view needs a name of 1 to ${viewNameCharsMax} printable characters: enter one`)
  if (query.length > viewQueryCharsMax)
    return invalid(`This filter is longer than ${viewQueryCharsMax} characters: shorten it, then save it`)
  const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : named
  if (tenantId !== undefined) {
    const reached = await reachTenant(parts, actor, tenantId)
    if (reached.kind !== 'ok') return reached
  }
  const view = { owner: actorName(actor), name, query, tenantId: tenantId ?? null }
  const saved = await saveView(parts.pool, view, parts.clock.now())
  if (saved.kind === 'full')
    return conflict(`You have ${savedViewsMax} saved views, the maximum: delete one, then save this one`)
  return ok({ isNew: saved.kind === 'saved' })
}

const remove: UseCase<string, Removed> = async ({ pool }, actor, name) =>
  ok({ existed: await deleteView(pool, actorName(actor), name) })

/** Use cases of saved views. Each actor has its own views and needs only a session, no right. */
export const savedViewCases = { list, save, remove }
