import { pageItemsDefault, pageItemsMax } from '#internal/base/index.ts'
import type { Reply } from './api-client.ts'
import type { JsonOption, Problem, Result } from './cli.ts'
import { printable } from './tables.ts'
import { parseWhole } from './values.ts'

/** Maximum number of printed items of a list. */
const itemsMax = 1_000
/** Maximum number of pages that a command reads. Even a page with fewer items than its limit can be followed by another page. */
const pagesMax = 100

export const limitOption = [
  '--limit <n>',
  `maximum number, 1 to ${itemsMax}`,
  parseWhole(1, itemsMax),
  pageItemsDefault,
] as const
export const afterOption = [
  '--after <cursor>',
  'continues an earlier list at the cursor that it printed',
] as const

export interface ListOptions extends JsonOption {
  readonly limit: number
  readonly after?: string | undefined
}

/** Reads pages until there are enough items, and notes how to continue. The JSON of a list is an array. */
export async function listPages<Item>(
  { limit, after }: ListOptions,
  read: (page: {
    readonly limit: number
    readonly after: string | undefined
  }) => Promise<Reply<{ readonly items: readonly Item[]; readonly next?: string }>>,
  show: (items: readonly Item[]) => string,
): Promise<Result> {
  const pages = await readPages({ limit, after }, read)
  if ('problem' in pages) return pages
  const { items, next } = pages
  const note = next === undefined ? undefined : `More: repeat the command with --after ${printable(next)}`
  return { text: show(items), json: items, note }
}

async function readPages<Item>(
  { limit, after }: Pick<ListOptions, 'limit' | 'after'>,
  read: Parameters<typeof listPages<Item>>[1],
): Promise<{ readonly items: readonly Item[]; readonly next: string | undefined } | Problem> {
  const items: Item[] = []
  let next = after
  for (let page = 0; page < pagesMax; page += 1) {
    const reply = await read({ limit: Math.min(pageItemsMax, limit - items.length), after: next })
    if (reply.kind === 'problem') return reply
    items.push(...reply.body.items)
    next = reply.body.next
    if (next === undefined || items.length >= limit) break
  }
  return { items, next }
}
