/** The largest page of a list. */
const pageMax = 100

/** Holds a page to 1 to 100 of what is listed. @throws RangeError that names it */
export function expectPageLimit(limit: number, listed: string): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageMax)
    throw new RangeError(`a page has 1 to ${pageMax} ${listed}, not ${limit}`)
}

/** A page of rows of which one more than `limit` was asked for; `next` is the last one's id where more are to come. */
export function pageOf<Row extends { readonly id: string }>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly next: Row['id'] | undefined } {
  const page = rows.slice(0, limit)
  return { page, next: rows.length > limit ? page.at(-1)?.id : undefined }
}
