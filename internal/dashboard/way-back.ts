import type { Form } from './form.ts'
import { type ActionRow, link, type PageRow } from './page.ts'

/** Where a page leads back to. */
export interface WayBack {
  /** An address that can be read: the page's own, or, of a form that was sent, of the page that its row names. */
  readonly here: string
  /** Whether a form was sent: to go to `here` is not to do it again. */
  readonly isForm: boolean
}

/** Tells of a request where its page leads back to; `/` for a form of no row. `form` is absent where it was not read. */
export type FindWayBack = (request: Request, form?: Form) => WayBack

/** Makes what knows the ways back of these pages. */
export function createWayBack(rows: readonly (PageRow | ActionRow)[]): FindWayBack {
  const actions = rows.filter((row) => row.method === 'POST')
  return (request, form = {}) => {
    const { pathname, search, searchParams } = new URL(request.url)
    if (request.method !== 'POST') return { here: `${pathname}${search}`, isForm: false }
    for (const { path, back, backKeeps = [] } of actions) {
      const params = matched(path, pathname)
      if (params === undefined) continue
      const kept = ['tenant', ...backKeeps].map(
        (name) => [name, form[name] ?? searchParams.get(name) ?? ''] as const,
      )
      return { here: link(filledIn(back, params), Object.fromEntries(kept)), isForm: true }
    }
    return { here: '/', isForm: true }
  }
}

/** The parts of an address that stand where a row's path has parameters, as they are encoded; undefined where it is of another row. */
function matched(path: string, pathname: string): ReadonlyMap<string, string> | undefined {
  const [wanted, given] = [path.split('/'), pathname.split('/')]
  if (wanted.length !== given.length) return undefined
  const params = new Map<string, string>()
  for (const [nth, part] of wanted.entries()) {
    if (part.startsWith(':')) params.set(part, given[nth] ?? '')
    else if (part !== given[nth]) return undefined
  }
  return params
}

function filledIn(path: string, params: ReadonlyMap<string, string>): string {
  return path
    .split('/')
    .map((part) => params.get(part) ?? part)
    .join('/')
}
