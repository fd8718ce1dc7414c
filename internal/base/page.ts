/** Maximum number of items on a page of a list. */
export const pageItemsMax = 100
/** Number of items on a page if the request states no limit. */
export const pageItemsDefault = 50

/** Checks that a page limit is from 1 to 100. @throws RangeError whose message contains `listed`, the name of the listed items */
export function expectPageLimit(limit: number, listed: string): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageItemsMax)
    throw new RangeError(`a page can contain 1 to ${pageItemsMax} ${listed}, not ${limit}`)
}

/** Cuts `limit` + 1 queried rows to a page. `next` is the id of the page's last row if there are more rows. */
export function pageOf<Row extends { readonly id: string }>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly next: Row['id'] | undefined } {
  const page = rows.slice(0, limit)
  return { page, next: rows.length > limit ? page.at(-1)?.id : undefined }
}
