import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import {
  deleteView,
  forgetSavedViews,
  listSavedViews,
  purgeSavedViews,
  savedViewsMax,
  saveView,
} from './saved-views.ts'

const dayMs = 86_400_000
const startMs = Date.parse('2026-11-01T12:00:00Z')
const owner = 'user:ada'
let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 8, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(() => pool.query('TRUNCATE saved_views'))

const view = (name: string, more: Partial<Parameters<typeof saveView>[1]> = {}) => ({
  owner,
  name,
  query: 'state=processed',
  tenantId: null,
  ...more,
})
const namesOf = async (of: string, nowMs = startMs) =>
  (await listSavedViews(pool, of, nowMs)).map(({ name }) => name)

test('saved views: are listed by name, saving under an existing name replaces the view, and each owner sees only its own views', async () => {
  expect(await saveView(pool, view('b'), startMs)).toEqual({ kind: 'saved' })
  expect(await saveView(pool, view('a'), startMs)).toEqual({ kind: 'saved' })
  expect(await saveView(pool, view('a', { owner: 'user:bob', query: 'find=x' }), startMs)).toEqual({
    kind: 'saved',
  })
  expect(await saveView(pool, view('b', { query: 'status=5xx' }), startMs)).toEqual({ kind: 'replaced' })
  expect(await listSavedViews(pool, owner, startMs)).toEqual([
    { name: 'a', query: 'state=processed' },
    { name: 'b', query: 'status=5xx' },
  ])
  expect(await deleteView(pool, 'user:bob', 'b')).toBe(false)
  expect([await deleteView(pool, owner, 'a'), await deleteView(pool, owner, 'a')]).toEqual([true, false])
  expect([await namesOf(owner), await namesOf('user:bob')]).toEqual([['b'], ['a']])
})

test('saved views: concurrent calls never exceed the maximum per owner, and an owner at the maximum can still replace a view', async () => {
  const many = Array.from({ length: savedViewsMax + 5 }, (_none, nth) =>
    saveView(pool, view(`v${nth}`), startMs),
  )
  const kinds = (await Promise.all(many)).map(({ kind }) => kind)
  expect(kinds.filter((kind) => kind === 'saved')).toHaveLength(savedViewsMax)
  expect(kinds.filter((kind) => kind === 'full')).toHaveLength(5)
  const [first = ''] = await namesOf(owner)
  expect(await saveView(pool, view(first), startMs)).toEqual({ kind: 'replaced' })
  expect(await saveView(pool, view('a', { owner: 'user:bob' }), startMs)).toEqual({ kind: 'saved' })
})

test('saved views: are deleted if their owner has not listed them for a year', async () => {
  await saveView(pool, view('seen'), startMs)
  await saveView(pool, view('unseen', { owner: 'user:bob' }), startMs)
  await namesOf(owner, startMs + 2 * dayMs)
  const yearMs = startMs + 365 * dayMs
  expect(await forgetSavedViews(pool, yearMs - 1)).toEqual({ removed: 0, hasMore: false })
  expect(await forgetSavedViews(pool, yearMs)).toEqual({ removed: 1, hasMore: false })
  expect([await namesOf(owner, yearMs), await namesOf('user:bob', yearMs)]).toEqual([['seen'], []])
})

test('saved views: are deleted together with the tenant that they refer to', async () => {
  const [gone, kept] = [someTenantId(), someTenantId()]
  await saveView(pool, view('gone', { tenantId: gone }), startMs)
  await saveView(pool, view('kept', { tenantId: kept }), startMs)
  await saveView(pool, view('all'), startMs)
  expect(await purgeSavedViews(pool, gone, 10)).toBe(1)
  expect(await namesOf(owner)).toEqual(['all', 'kept'])
})
