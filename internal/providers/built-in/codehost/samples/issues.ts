import { api, developer, label, milestone, repositoryReference, reviewer, type Sample, web } from './scene.ts'

const issue = {
  url: `${api}/issues/311`,
  html_url: `${web}/issues/311`,
  repository_url: api,
  number: 311,
  id: 2_611_903_745,
  node_id: 'I_kwDOJHpZUc6brmsB',
  title: 'Totals are off by one cent',
  user: reviewer,
  labels: [],
  state: 'open',
  state_reason: null,
  locked: false,
  assignee: null,
  assignees: [],
  milestone: null,
  comments: 2,
  author_association: 'MEMBER',
  created_at: '2026-11-09T14:02:18Z',
  updated_at: '2026-11-10T07:55:41Z',
  closed_at: null,
  body: 'An order of 3 × 0.335 is charged 1.01.',
  active_lock_reason: null,
}
const other = {
  url: `${api}/issues/298`,
  html_url: `${web}/issues/298`,
  repository_url: api,
  number: 298,
  id: 2_598_117_203,
  node_id: 'I_kwDOJHpZUc6a2_xj',
  title: 'Use one library for money',
  user: developer,
  labels: [],
  state: 'open',
  locked: false,
  comments: 0,
  created_at: '2026-10-30T09:41:00Z',
  updated_at: '2026-11-10T07:55:41Z',
  closed_at: null,
}
const type = {
  id: 20_114_882,
  node_id: 'IT_kwDOA3m_Ks4BMu1i',
  name: 'Bug',
  color: 'red',
  is_enabled: true,
  description: 'An unexpected problem',
  created_at: '2025-03-03T10:00:00Z',
  updated_at: '2025-03-03T10:00:00Z',
}
const field = { id: 4_410_027, name: 'Impact', field_type: 'single_select' }
const fieldValue = { id: 90_411_733, value_id: 5_001, option: { id: 5_001, name: 'High', color: 'red' } }
const comment = {
  url: `${api}/issues/comments/2466104337`,
  html_url: `${web}/issues/311#issuecomment-2466104337`,
  issue_url: `${api}/issues/311`,
  id: 2_466_104_337,
  node_id: 'IC_kwDOJHpZUc6S_gQR',
  user: developer,
  body: 'I can reproduce this.',
  author_association: 'MEMBER',
  created_at: '2026-11-10T07:55:40Z',
  updated_at: '2026-11-10T07:55:40Z',
}
const pullRequest = {
  url: `${api}/pulls/318`,
  html_url: `${web}/pull/318`,
  merged_at: null,
}
const onPullRequest = {
  issue: {
    ...issue,
    number: 318,
    title: 'Round totals half to even',
    url: `${api}/issues/318`,
    html_url: `${web}/pull/318`,
    draft: false,
    pull_request: pullRequest,
  },
}
const edited = { changes: { body: { from: 'Can reproduce.' } } }
const otherRepository = {
  ...repositoryReference,
  id: 640_118_022,
  name: 'money',
  full_name: 'acme-example/money',
}
const dependency = {
  blocked_issue_id: issue.id,
  blocked_issue: issue,
  blocking_issue_id: other.id,
  blocking_issue: other,
}
const subIssue = {
  sub_issue_id: issue.id,
  sub_issue: issue,
  parent_issue_id: other.id,
  parent_issue: other,
}
const relation = { issue_id: issue.id, issue, related_issue_id: other.id, related_issue: other }
const discussion = {
  id: 7_440_218,
  node_id: 'D_kwDOJHpZUc4AcYga',
  number: 305,
  title: 'How do we round?',
  html_url: `${web}/discussions/305`,
  repository_url: api,
  user: developer,
  state: 'open',
  category: {
    id: 41_220_733,
    node_id: 'DIC_kwDOJHpZUc4CdPk9',
    name: 'Q&A',
    slug: 'q-a',
    emoji: ':pray:',
    description: 'Ask the team',
    is_answerable: true,
    repository_id: 612_004_881,
    created_at: '2025-02-17T10:05:00Z',
    updated_at: '2025-02-17T10:05:00Z',
  },
  answer_html_url: null,
  answer_chosen_at: null,
  answer_chosen_by: null,
  locked: false,
  comments: 3,
  state_reason: null,
  active_lock_reason: null,
  created_at: '2026-11-08T13:14:00Z',
  updated_at: '2026-11-10T08:01:10Z',
  body: 'Up or half to even?',
  author_association: 'MEMBER',
}
const answer = {
  id: 11_204_593,
  node_id: 'DC_kwDOJHpZUc4Aqvdx',
  html_url: `${web}/discussions/305#discussioncomment-11204593`,
  parent_id: null,
  child_comment_count: 0,
  repository_url: api,
  discussion_id: 7_440_218,
  user: reviewer,
  body: 'Half to even, as the bank does.',
  author_association: 'MEMBER',
  created_at: '2026-11-09T08:00:00Z',
  updated_at: '2026-11-09T08:00:00Z',
}
const project = {
  id: 12_003_774,
  node_id: 'PVT_kwDOA3m_Ks4AtyXe',
  number: 9,
  title: 'Orders 2.4',
  creator: developer,
  owner: { login: 'acme-example', id: 58_310_442, type: 'Organization' },
  public: false,
  description: null,
  short_description: 'Returns and exchanges',
  closed_at: null,
  deleted_at: null,
  created_at: '2026-10-01T07:30:00Z',
  updated_at: '2026-11-10T08:05:00Z',
  deleted_by: null,
}
const item = {
  id: 88_410_233,
  node_id: 'PVTI_lADOA3m_Ks4AtyXezgVFEuk',
  project_node_id: 'PVT_kwDOA3m_Ks4AtyXe',
  content_node_id: 'I_kwDOJHpZUc6brmsB',
  content_type: 'Issue',
  creator: developer,
  created_at: '2026-11-09T14:10:00Z',
  updated_at: '2026-11-10T08:05:00Z',
  archived_at: null,
}
const statusUpdate = {
  id: 3_304_117,
  node_id: 'PVTSU_lADOA3m_Ks4AtyXezgAyazU',
  project_node_id: 'PVT_kwDOA3m_Ks4AtyXe',
  creator: developer,
  status: 'AT_RISK',
  start_date: '2026-11-03',
  target_date: '2026-12-15',
  body: 'Two issues are blocked.',
  created_at: '2026-11-10T08:06:00Z',
  updated_at: '2026-11-10T08:06:00Z',
}

/** Examples of events about issues, discussions and projects. */
export const issues: Readonly<Record<string, Sample>> = {
  issues: {
    scope: 'repository',
    body: { action: '', issue },
    byType: {
      'issue.updated': { changes: { title: { from: 'Totals are wrong' } } },
      'issue.closed': {
        issue: { ...issue, state: 'closed', state_reason: 'completed', closed_at: '2026-11-10T09:20:34Z' },
      },
      'issue.reopened': { issue: { ...issue, state_reason: 'reopened' } },
      'issue.transferred': {
        changes: { new_issue: { ...other, number: 12 }, new_repository: otherRepository },
      },
      'issue.assigned': {
        issue: { ...issue, assignee: developer, assignees: [developer] },
        assignee: developer,
      },
      'issue.unassigned': { assignee: developer },
      'issue.labelled': { issue: { ...issue, labels: [label] }, label },
      'issue.unlabelled': { label },
      'issue.milestoned': { issue: { ...issue, milestone }, milestone },
      'issue.demilestoned': { milestone },
      'issue.locked': { issue: { ...issue, locked: true, active_lock_reason: 'resolved' } },
      'issue.typed': { issue: { ...issue, type }, type },
      'issue.untyped': { type },
      'issue.field_set': { issue_field: field, issue_field_value: fieldValue },
      'issue.field_cleared': { issue_field: field, issue_field_value: fieldValue },
    },
  },
  issue_comment: {
    scope: 'repository',
    body: { action: '', issue, comment },
    byType: {
      'issue.comment_updated': edited,
      'pull_request.commented': onPullRequest,
      'pull_request.comment_updated': { ...onPullRequest, ...edited },
      'pull_request.comment_deleted': onPullRequest,
    },
  },
  issue_dependencies: {
    scope: 'repository',
    body: { action: '', ...dependency },
    byType: {
      'issue.dependency_added': { blocking_issue_repo: repositoryReference },
      'issue.dependency_removed': { blocking_issue_repo: repositoryReference },
      'issue.dependent_added': { blocked_issue_repo: repositoryReference },
      'issue.dependent_removed': { blocked_issue_repo: repositoryReference },
    },
  },
  issue_relates_to: { scope: 'repository', body: { action: '', ...relation } },
  sub_issues: {
    scope: 'repository',
    body: { action: '', ...subIssue },
    byType: {
      'issue.sub_issue_added': { sub_issue_repo: repositoryReference },
      'issue.sub_issue_removed': { sub_issue_repo: repositoryReference },
      'issue.parent_added': { parent_issue_repo: repositoryReference },
      'issue.parent_removed': { parent_issue_repo: repositoryReference },
    },
  },
  label: {
    scope: 'repository',
    body: { action: '', label },
    byType: {
      'label.updated': { changes: { name: { from: 'defect' } } },
      'label.archived': {
        label: { ...label, archived_at: '2026-11-10T09:50:00Z', archived_by: developer },
      },
    },
  },
  milestone: {
    scope: 'repository',
    body: { action: '', milestone },
    byType: {
      'milestone.updated': { changes: { due_on: { from: '2026-12-01T08:00:00Z' } } },
      'milestone.closed': { milestone: { ...milestone, state: 'closed', closed_at: '2026-12-14T15:00:00Z' } },
    },
  },
  discussion: {
    scope: 'repository',
    body: { action: '', discussion },
    byType: {
      'discussion.updated': { changes: { title: { from: 'Rounding' } } },
      'discussion.category_changed': {
        changes: {
          category: { from: { ...discussion.category, id: 41_220_731, name: 'General', slug: 'general' } },
        },
      },
      'discussion.answered': {
        discussion: {
          ...discussion,
          answer_html_url: answer.html_url,
          answer_chosen_by: developer,
          answer_chosen_at: '2026-11-10T08:01:10Z',
        },
        answer,
      },
      'discussion.unanswered': { old_answer: answer },
      'discussion.labelled': { label },
      'discussion.unlabelled': { label },
      'discussion.locked': { discussion: { ...discussion, state: 'locked', locked: true } },
      'discussion.transferred': {
        changes: { new_discussion: { ...discussion, number: 3 }, new_repository: otherRepository },
      },
      'discussion.closed': { discussion: { ...discussion, state: 'closed', state_reason: 'resolved' } },
    },
  },
  discussion_comment: {
    scope: 'repository',
    body: { action: '', comment: answer, discussion },
    byType: { 'discussion.comment_updated': { changes: { body: { from: 'Half to even.' } } } },
  },
  projects_v2: {
    scope: 'organization',
    body: { action: '', projects_v2: project },
    byType: {
      'project.updated': { changes: { title: { from: 'Orders', to: 'Orders 2.4' } } },
      'project.closed': { projects_v2: { ...project, closed_at: '2026-12-15T16:00:00Z' } },
      'project.deleted': {
        projects_v2: { ...project, deleted_at: '2027-01-04T09:00:00Z', deleted_by: developer },
      },
    },
  },
  projects_v2_item: {
    scope: 'organization',
    body: { action: '', projects_v2_item: item },
    byType: {
      'project_item.updated': {
        changes: {
          field_value: { field_node_id: 'PVTSSF_lADOA3m_Ks4AtyXezgkq1Zk', field_type: 'single_select' },
        },
      },
      'project_item.converted': { changes: { content_type: { from: 'DraftIssue', to: 'Issue' } } },
      'project_item.reordered': {
        changes: { previous_projects_v2_item_node_id: { from: null, to: 'PVTI_lADOA3m_Ks4AtyXezgVFEtQ' } },
      },
      'project_item.archived': {
        projects_v2_item: { ...item, archived_at: '2026-11-10T08:05:00Z' },
        changes: { archived_at: { from: null, to: '2026-11-10T08:05:00Z' } },
      },
      'project_item.restored': { changes: { archived_at: { from: '2026-11-10T08:05:00Z', to: null } } },
    },
  },
  projects_v2_status_update: {
    scope: 'organization',
    body: { action: '', projects_v2_status_update: statusUpdate },
    byType: { 'project.status_updated': { changes: { status: { from: 'ON_TRACK', to: 'AT_RISK' } } } },
  },
}
