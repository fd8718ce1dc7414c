import { expect, test } from 'bun:test'
import { eventCatalogue } from '#internal/providers/index.ts'
import { eventTypesText } from './event-types.ts'

const page = eventTypesText()

/** Heading anchors as GitHub generates them; duplicates are not numbered. */
const anchors = [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-'),
)

test('page of event types: anchors are unique, and every link within the page points to an existing anchor', () => {
  expect(anchors).toEqual([...new Set(anchors)])
  const links = [...page.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor)
  expect(links.length).toBeGreaterThan(100)
  expect(links.filter((anchor) => !anchors.includes(anchor ?? ''))).toEqual([])
})

test('page of event types: each type has exactly one row', () => {
  const rows = [...page.matchAll(/^\| `([a-z_.]+)` \|/gm)].map(([, type = '']) => type)
  expect(rows.toSorted()).toEqual(eventCatalogue.map(({ type }) => type))
})

test('page of event types: each raw type is listed once per type, together with the types that can apply instead', () => {
  expect(page).toContain(
    '**wallet** `INVOICING.INVOICE.PAID` (unless [`invoice.partially_paid`](#invoice) or [`invoice.payment_processing`](#invoice) applies)',
  )
  expect(page).toContain(
    '`INVOICING.INVOICE.PAID` (resource.invoice.status is PARTIALLY_PAID; or resource.invoice.status is absent and resource.status is PARTIALLY_PAID)',
  )
})
