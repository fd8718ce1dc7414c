import { expect, test } from 'bun:test'
import { notificationTypes } from '#internal/tenants/index.ts'
import { type NoticeType, noticeProblems, noticeSamples, testNoticeType } from './notification-samples.ts'

const types = Object.keys(noticeSamples) as NoticeType[]

test('samples of notifications: every notification type has a sample, and no other type has one', () => {
  expect(new Set<string>(types)).toEqual(new Set([...notificationTypes, testNoticeType]))
})

test.each(types)('sample of %s: matches the schema of its type', (type) => {
  expect(noticeProblems(type, noticeSamples[type].sample)).toEqual([])
  const { tenant: _tenant, ...rest } = noticeSamples[type].sample
  expect(noticeProblems(type, rest)).not.toEqual([])
  expect(noticeProblems(type, { ...noticeSamples[type].sample, more: 1 })).not.toEqual([])
})
