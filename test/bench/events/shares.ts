/** Name with its share of the whole, in 1/10 000. */
export type Share = readonly [name: string, tenThousandths: number]

/** Shares of tenants, largest first: the last has a few hundred of ten million events. */
export const tenantShares: readonly number[] = [3800, 2400, 1500, 900, 600, 400, 200, 120, 60, 19, 1]

/** Shares of providers; the last one is as rare as sandbox traffic. */
export const providerShares: readonly Share[] = [
  ['card', 4500],
  ['storefront', 2500],
  ['generic', 1600],
  ['codehost', 900],
  ['wallet', 490],
  ['gateway', 10],
]

/** Shares of thirty types: a few types make up most events, and the last is one in ten thousand. */
export const typeShares: readonly Share[] = [
  ['payment.succeeded', 2600],
  ['order.created', 1500],
  ['order.updated', 1200],
  ['order.paid', 900],
  ['payment.authorized', 700],
  ['order.fulfilled', 600],
  ['customer.updated', 500],
  ['code.pushed', 400],
  ['payment.failed', 300],
  ['customer.created', 250],
  ['product.updated', 200],
  ['review.approved', 150],
  ['refund.created', 120],
  ['refund.succeeded', 100],
  ['issue.opened', 90],
  ['order.cancelled', 80],
  ['build.succeeded', 70],
  ['payout.paid', 60],
  ['subscription.updated', 50],
  ['subscription.created', 40],
  ['payment.cancelled', 25],
  ['payout.failed', 20],
  ['release.published', 12],
  ['refund.failed', 10],
  ['subscription.cancelled', 8],
  ['chargeback.created', 6],
  ['chargeback.under_review', 4],
  ['chargeback.evidence_required', 2],
  ['chargeback.lost', 2],
  ['chargeback.won', 1],
]

/** Share of events whose delivery failed finally. */
export const failedTenThousandths = 50

/** Returns SQL that maps a number from 0 to 9 999 to a 1-based index in a list of shares. */
export function placeText(shares: readonly number[], number: string): string {
  let sum = 0
  const bounds = shares.slice(0, -1).map((share) => (sum += share))
  return `width_bucket(${number}, ARRAY[${bounds.join(',')}]) + 1`
}

/** Formats texts as an SQL array. */
export function arrayText(texts: readonly string[]): string {
  return `ARRAY['${texts.join("','")}']::text[]`
}
