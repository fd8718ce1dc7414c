import { type ActionRow, link, type PageRow } from './page.ts'
import type { Form } from './request.ts'

/** Address that a page links back to. */
export interface WayBack {
  /** The page's own address; for a POST the `GET` page that its row names. */
  readonly here: string
  /** True for a POST: following `here` does not repeat it. */
  readonly isForm: boolean
}

/** Finds the way back of a request; `/` for a POST without a row. `form` is omitted if it was not read. */
export type FindWayBack = (request: Request, form?: Form) => WayBack

/** Creates the finder for a table of pages. */
export function createWayBack(rows: readonly (PageRow | ActionRow)[]): FindWayBack {
  const actions = rows.filter((row) => row.method === 'POST')
  return (request, form = {}) => {
    const { pathname, search, searchParams } = new URL(request.url)
    if (request.method !== 'POST') return { here: `${pathname}${search}`, isForm: false }
    for (const { path, back, backKeeps = [] } of actions) {
      const params = match(path, pathname)
      if (params === undefined) continue
      const kept = ['tenant', ...backKeeps].map(
        (name) => [name, form[name] ?? searchParams.get(name) ?? ''] as const,
      )
      const filled = back.split('/').map((part) => params.get(part) ?? part)
      return { here: link(filled.join('/'), Object.fromEntries(kept)), isForm: true }
    }
    return { here: '/', isForm: true }
  }
}

/** Returns the encoded path parameters by name; undefined if the path is of another route. */
function match(path: string, pathname: string): ReadonlyMap<string, string> | undefined {
  const [wanted, given] = [path.split('/'), pathname.split('/')]
  if (wanted.length !== given.length) return undefined
  const params = new Map<string, string>()
  for (const [nth, part] of wanted.entries()) {
    if (part.startsWith(':')) params.set(part, given[nth] ?? '')
    else if (part !== given[nth]) return undefined
  }
  return params
}
