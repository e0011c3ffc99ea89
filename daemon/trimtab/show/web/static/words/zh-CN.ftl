# trimtab 面向用户的文字：网页与值班消息。键与 en.ftl 相同；人要输入的词（cordon、drain、XID、GPU、节点名、命令）保持原样。

## 问题的种类（rule-<rule>）
rule-device_fault = GPU 故障
rule-node_silent = 节点失联
rule-gpus_missing = GPU 缺失
rule-hotspot = 过热或限频
rule-straggler = 慢卡（拖慢全组）
rule-hung_job = 作业挂起
rule-idle_gpu = 占用但空闲
rule-fragmentation = 碎片
rule-contradiction = 数据矛盾
rule-clock_skew = 时钟偏差
rule-blind = 看不到

## 严重程度
severity-critical = 严重
severity-warning = 警告
severity-info = 提示

## 处理办法（action-<action>）
action-none = 无需处理
action-unknown = 数据不足，无法判断
action-watch = 继续观察
action-alert_owner = 通知作业负责人
action-config_problem = 修正配置
action-reset_after_drain = 腾空后重置 GPU
action-cordon_reset = 先 cordon，再重置 GPU
action-cordon_reboot = 先 cordon，再重启节点
action-hardware_rma = 停用并送修（RMA）

## 值班消息：首行前的标记，正文后的链接（oncall-<what>）
oncall-mark-drill = 【演练】
oncall-mark-repeat = 【可能重复】
oncall-open = 在 trimtab 中打开
oncall-runbook = 处理手册
oncall-acknowledge = 确认
oncall-mail-reason = 收到此邮件是因为 trimtab 的设置在目标 { $target } 中列出了您。事件 { $incident }。

## 值班消息：正文（oncall-<what>）
oncall-hits = 影响：{ $impact }
oncall-since = 开始于 { $at }。
oncall-was-quiet = 已持续 { $age }，期间因静默或维护窗口未通知任何人。
oncall-do = 建议：{ $what }
oncall-seen = 依据（{ $source }）：{ $text }
oncall-against = 反面证据：{ $text }
oncall-would = 实际会执行：{ $what }
oncall-would-nothing = 实际会执行：无（trimtab 无可写的操作）。
oncall-drill = 这是一次演练：没有任何故障，也不会停用任何设备。
oncall-for-owner = 收到此消息是因为受影响的作业属于您。
oncall-command-proposed = 已建议 { $name }：{ $what }，等待批准。
oncall-command-approved = { $name } 已由 { $who } 批准：{ $what }。
oncall-command-held = { $name } 正在执行：{ $what }。
oncall-command-confirmed = { $name } 正在执行：{ $what }。
oncall-command-submitted = { $name } 正在执行：{ $what }。
oncall-command-settled = 已完成 { $name }：{ $what }。
oncall-command-abandoned = { $name } 未能完成，已放弃：{ $what }。
oncall-command-missed = { $name } 晚了一步，位置已被占用：{ $what }。
oncall-command-undone = { $name } 已撤销：{ $what }。
oncall-command-refused = { $name } 被规则拒绝：{ $what }。
oncall-command-rejected = { $name } 已被否决：{ $what }。
oncall-command-other = { $name } 状态 { $state }：{ $what }。
oncall-acted-command = { $who } 批准了 { $name }：{ $what }。
oncall-acknowledged = { $who } 于 { $at } 确认处理。
oncall-lasted = 持续 { $span }，始于 { $at }。
oncall-cost = 约损失 { $hours } GPU 小时。
oncall-ended = 结束原因：{ $why }。
oncall-nobody-acted = 无人确认。
oncall-summary = 另有 { $count } 起非严重事件（{ $named } 等）；数量过多，不逐条通知
oncall-summary-over = 汇总通知的事件均已结束
oncall-change-worse = 情况加重。
oncall-change-better = 有所好转，尚未结束。
oncall-change-victims = 影响范围扩大。
oncall-change-action = 处理办法有变。
oncall-change-command = 处理进展有变。
oncall-change-summary = 数量有变。
oncall-prefix-over = 已恢复（持续 { $span }）：
oncall-prefix-acknowledged = { $who } 已确认：
oncall-prefix-worse = 加重：
oncall-prefix-better = 好转：
oncall-prefix-victims = 影响扩大：
oncall-prefix-owner = 您的作业：
oncall-span-s = { $count } 秒
oncall-span-min = { $count } 分钟
oncall-span-h = { $count } 小时
oncall-span-d = { $count } 天
oncall-reopened = 已并入另一事件

## Signing in (sign-in-<what>), roles (role-<role>)
role-viewer = 只读
role-operator = 操作员
role-admin = 管理员
sign-in-title = 登录 trimtab
sign-in-token = 您的令牌
sign-in-button = 登录
sign-in-help = 令牌由管理员发放：trimtab token person NAME --role operator。一次性链接：trimtab link。
sign-in-nobody = 未登录
sign-in-out = 退出登录
sign-in-over = 会话已结束，页面内容可能已过时。

## The page: ages and numbers
age-seconds = { $n } 秒
age-minutes = { $n } 分钟
age-hours = { $n } 小时
age-days = { $n } 天
age-ago = { $age }前
at-ago = { $at }，{ $age }前
gpu-hours = { $n } GPU·时
gain-a-day = 每天 { $gain }
gain-in-hours = { $hours } 小时内 { $gain }
not-known = 未知
count-gpus = { $count ->
   *[other] { $n } 块 GPU
  }
count-nodes = { $count ->
   *[other] { $n } 个节点
  }
count-racks = { $count ->
   *[other] { $n } 个机柜
  }
count-jobs = { $count ->
   *[other] { $n } 个作业
  }
count-pods = { $count ->
   *[other] { $n } 个 pod
  }
count-steps = { $count ->
   *[other] { $n } 步
  }
count-things = { $count ->
   *[other] { $n } 项
  }
size-pods = { $pods } × { $gpus } 块 GPU
and-more = 另有 { $n } 项
and-more-by = 另有 { $n } 项：{ $command }
the-cluster = 整个集群
asking = 正在向守护进程查询。

## The page: metrics
metric-sm_active_ratio = SM 活跃度
metric-graphics_engine_active_ratio = 引擎活跃度
metric-utilization_ratio = 利用率
metric-temperature_celsius = 温度
metric-memory_temperature_celsius = 显存温度
metric-power_watts = 功率
metric-sm_clock_hertz = SM 频率
metric-memory_used_bytes = 已用显存
metric-tensor_active_ratio = Tensor 活跃度
metric-dram_active_ratio = 显存带宽占用
metric-up = 有应答
measure-activity = SM 活跃度
measure-temperature = 温度
measure-power = 功率
measure-clock = SM 频率
measure-memory = 已用显存
measure-findings = 问题

## The page: states of a GPU (cell-<state>)
cell-working = 工作中
cell-held_idle = 占用但空闲
cell-free = 空闲
cell-stranded = 空闲但用不上
cell-spare = 备用
cell-lost = 丢失
cell-unusable = 停用
cell-silent = 失联：没有新上报
cell-unknown = 未知
cordoned = 已 cordon
cordoned-by = 被 { $who } cordon

## The page: head and line
skip-to-todo = 跳到“要做什么”
mode = 模式
mode-observe = 观察
mode-recommend = 建议
mode-approve = 批准
mode-act = 自动
mode-observe-means = 只观察并指出问题，不提建议。
mode-recommend-means = 只提建议，不执行，因此无可批准。
mode-approve-means = 执行经人批准的操作。
mode-act-means = 设置允许的自动执行，其余经人批准后执行。
language = 语言
person-signed-out = 已退出
beat-age = { $age }前更新
beat-past = { $at } 的状态
line-first-board = 正在向守护进程取第一份看板。
line-signed-out = 你已退出登录，显示的是旧数据。请登录，或在守护进程所在主机上生成新链接：
line-silent = 守护进程已 { $age }没有消息。显示的是 { $at } 的数据；正在重试。
line-status = 守护进程返回 { $status }。
line-unreachable = 连不上守护进程，什么也没有发出。恢复更新后再试。
pause = 暂停
resume = 继续
pause-why = 不再开始新的操作。原因？
paused-plain = 已暂停：不开始新的操作。
paused-means = 已开始的会做完或撤销。
standby-why = 这里不写入：{ $why }
stopped = 已停止：
let-go-on = 让 { $rule } 继续
release-done = 我们占用的已全部归还（{ $things }，由 { $who } 要求）。
release-going = 自 { $at } 起为 { $who } 归还一切：已还 { $back } 项，剩 { $left } 项
vetoes = 有人打开过，因此不动
veto-lift = 允许再次 cordon
foreign = 属于其他守护进程，不动
notes = 集群中未读取的
quiet-silence = 静默：
quiet-maintenance = 维护：
quiet-words = { $about } 到 { $until } 前不呼叫任何人（{ $who }：{ $why }）
quiet-keeps = 因此不响的：{ $findings }
quiet-tag-silence = 已静默
quiet-tag-maintenance = 维护中
quiet-tag-other = 不呼叫

## The page: search
search-hint = 节点、GPU、作业、UUID …（ / ）
search-label = 搜索节点、GPU、作业或 UUID
search-found = 找到的
search-nothing = 没有名称含此内容的对象。
search-node = 节点
search-job = 作业，{ $state }
search-queue = 队列
search-finding = 问题
search-recommendation = 建议

## The page: the strip
strip-label = 集群数字
strip-working = 工作中的 GPU
strip-idle = 占用但空闲
strip-idle-none = 没有占而不用的
strip-stranded = 用不上，k =
strip-size = 一起要几块 GPU
strip-out = 停用
strip-goodput = 有效产出
strip-of-share = 共 { $total } · { $share }
strip-of-free = 空闲 { $n } 块中
strip-beside-spare = ，另有备用 { $n } 块
strip-not-known = { $n } 块未知
strip-none = 没有
strip-nothing-held = 没有被占用的
strip-of-held = 占被持有的 GPU
strip-change = 自 { $at } 起 { $change }

## The page: the fleet
fleet-title = 按此着色
fleet-colour = 着色
fleet-group = 分组
fleet-order = 排序
fleet-group-rack = 按机柜分组
fleet-group-queue = 按队列分组
fleet-group-job = 按作业分组
fleet-group-model = 按型号分组
fleet-group-none = 不分组
fleet-order-name = 按名称
fleet-order-free = 空闲多的在前
fleet-highlighted = 高亮：{ $job }（{ $gpus }，{ $nodes }，{ $racks }）
fleet-picture = 集群图
fleet-picture-kind = 集群图
fleet-keys = 方向键逐格移动，回车打开。加号减号缩放，0 显示全部，Shift 加方向键平移。下方有同样内容的表格。
fleet-zoom-in = 放大
fleet-zoom-out = 缩小
fleet-zoom-hint = Ctrl + 滚轮、双击或 + 缩放；拖动平移
fleet-whole = 全部
fleet-metric-now-only = 过去的数据中，每块 GPU 只保留看板自己的数字。
fleet-table = 以表格显示
fleet-table-all = 全部
fleet-table-back = 返回全部
fleet-table-gpus = GPU
fleet-table-node = 节点
fleet-table-findings = 问题
group-rack = 机柜 { $name }
group-nobody = 无人占用
group-no-queue = 无队列
group-model-unknown = 型号未知
tip-held-by = {" "}· { $job }
tip-stranded-for = ，等待者 { $job }
tip-mean = { $what } 平均 { $value }
legend-stranded-for = { $jobs } 用不上
legend-no-finding = 没有问题
legend-waits = { $n } 个在等待

## The page: what to do, what is wrong, who waits
todo-title = 要做什么
todo-why = 为什么
todo-why-label = 为什么 { $name }
todo-now = 现在
todo-over = 最近一小时结束的：{ $n }
todo-observe = 观察模式下不提建议。
todo-nothing = 没有要做的。
todo-nothing-better = 没有要做的：没有比等待更好的移动。
todo-refusals = 没有做的及原因：{ $n }
not-before = 不早于 { $at }
gain = 收益
cost = 代价
steps-done = 已完成 { $done } / { $steps }
wrong-title = 有什么问题
wrong-mark-seen = 把 { $n } 项标为已看
wrong-closed = 最近一小时关闭的：{ $n }
wrong-nothing = 没有问题。
wrong-nothing-seen = 看得到的部分没有问题。
wrong-last = 上一个问题在 { $age }前。
wrong-report = { $total } 块 GPU 中 { $reporting } 块在上报。
waits-title = 谁在等，为什么
waits-job = 作业
waits-size = 大小
waits-for = 已等待
waits-why = 原因
waits-do = 建议
waits-state = 状态
waits-priority = 优先级
waits-queue = 队列
waits-queues = 队列（已用/配额 GPU）：
waits-nobody = 没有等待者；{ $jobs }在运行。

## The page: decisions
approve = 批准
approve-label = 批准 { $name }
sending = 发送中…
cancel = 取消
close = 关闭
close-view = 关闭此视图
copy = 复制
reject-open = 拒绝…
reject-name = 拒绝 { $name }
reject-why = 为什么不？
reject-words = 或用自己的话
reject-deadline = 现在不行：作业有期限
reject-owner = 负责人不同意
reject-wrong = 问题判断有误
reject-cost = 代价太大
reject-hand = 我手动处理
later-open = 稍后…
later-in = 多久后再问
later-button = 到时再问
undo-open = 撤销…
undo-name = 撤销 { $name }
take-back-open = 收回…
why-asked = 原因？
command-proposed = 已提出
command-approved = 已批准
command-held = 已占位
command-confirmed = 已确认
command-submitted = 移动中
command-settled = 已完成
command-rejected = 已拒绝
command-refused = 被驳回
command-expired = 已过期
command-abandoned = 已放弃
command-missed = 错过
command-undone = 已撤销
standing-proposed = 已提出
standing-approved = 由 { $who } 批准
standing-approved-waits = 由 { $who } 批准，等到 { $at }
standing-expires = { $at } 过期
standing-snoozed = { $at } 再问
standing-undoing = 正在为 { $who } 撤销
standing-held = 已占位：留好了位置，尚未移动
standing-confirmed = 已确认：仍然正确，即将移动
standing-submitted = 移动中
standing-settled = 已完成
standing-rejected = 已拒绝
standing-refused = 被驳回
standing-expired = 已过期
standing-abandoned = 已放弃并归还
standing-missed = 错过：位置被占
standing-undone = 已撤销
snoozed-until = 推迟到 { $at }

## The page: findings
finding = 问题
findings = 问题
finding-new = 新
finding-closed = 已关闭
finding-closed-at = { $at } 关闭：{ $why }
finding-closed-view = { $at } 关闭：{ $why }
finding-gone = 已不成立
finding-for = 持续
finding-since = { $age }，自 { $at }
finding-action = 处理
finding-loss = 打开期间损失
finding-loss-words = 相当于 { $loss } 块 GPU 的工作，影响 { $hit } 块
finding-where = 位置
finding-sure = 是否确定
finding-sure-yes = 是：两个迹象，或一个足够的
finding-sure-no = 尚未：不据此移动
finding-rule = 规则
finding-advice = 建议做法
finding-recommended = 相关建议
rests-on = 依据
rests-on-sentence = 已知的都在这句话里。
rests-on-waiting = 没有问题：依据是谁在等、什么空闲。
against = 反面证据
against-nothing = 没有已知的。
against-threshold = 阈值 { $value }
against-cost = ，代价
chart-of-gpu = { $where } 的 { $metric }
chart-of-node = { $where } 各 GPU 的 { $metric }
chart-limit = 阈值 { $value }
chart-peers = 同节点其他 GPU
chart-no-library = 图表组件加载失败，请刷新页面。
chart-asking = 正在取历史数据。
chart-empty = 这段时间没有上报 { $metric }。
chart-now = { $at }：{ $value }
how-far-back = 回看多久
incident-acknowledge = 我来处理
incident-acknowledge-label = 我来处理：{ $name }
incident-has-it = { $who } 在处理
incident-acknowledged = { $who } 在处理，已 { $age }。
incident-told = { $at } 已通知值班（{ $pager }）。
incident-not-told = 未通知值班。
incident-pager-outbox = 由 trimtab
incident-pager-alertmanager = 由 Alertmanager
incident-pager-none = 无人呼叫

## The page: a recommendation
recommendation = 建议
before-after = 之前 → 之后
picture-before = 之前
picture-after = 之后
moves-nothing = 不移动任何东西：见步骤。
move-spoken = { $job } 的 { $gpus } 块 GPU 从 { $from } 到 { $to }
start-spoken = { $job } 的 { $gpus } 块 GPU 在 { $to } 启动
starts-on = 在 { $node } 启动
gain-and-cost = 收益与代价
formula = 公式
unlocked = 释放 { $gpus }
disturbed = 打扰 { $pods }，重启 { $age }
nobody-disturbed = 不打扰任何人
record = 该规则的记录
steps = 步骤
step-waiting = 等待
step-doing = 进行中
step-done = 完成
step-given-back = 已归还
approval-exact = 批准只针对这些写入：{ $fingerprint }。
way-expected = 预计 { $age }后全部恢复运行。
lines-to-copy = 可复制的命令
owners = 负责人
owners-told = 已于 { $at } 告知。
owners-told-until = 已于 { $at } 告知；最早 { $until } 开始。
owner-asked = { $at } 询问，{ $until } 前答复
owner-yes = { $at } 同意
owner-no = { $at } 不同意
owner-not_before = { $at } 说稍后
gates = 恢复使用之前
if-nothing = 如果什么都不做
may-approve = 以 operator 登录的人可以批准，或：trimtab approve { $name }
may-approve-not-you = operator 可以在这里批准，或用：trimtab approve { $name }
approved-by = 由 { $who } 批准。
may-advice = 无法批准：这类只是建议，请手动执行。
may-not-in-mode = { $mode } 模式下不能批准：复制步骤，或在守护进程设置中写 [issue] mode = "approve"。
may-expired = 已过期；若仍成立会重新提出。
may-not-now = 此刻不能批准。
may-is = 状态：{ $state }。
outcome = 结果
outcome-good = 如预期。
outcome-bad = 不如预期。
outcome-forecast = 预测
outcome-measured = 实测
outcome-runs = 恢复运行用时
outcome-gained = 净得 GPU·时
outcome-lost = 损失 GPU·时
outcome-seats = 按计划落位
outcome-unlocked = 释放的 GPU

## The page: node, job, queue
node-unknown = 现在没有名为 { $node } 的节点，可能已移除。
node-gpus = { $node } 的 GPU
node-no-gpu = 没有已知的 GPU。
node-history = 历史，最近
node-rack = 机柜 { $rack }
node-rack-unknown = 机柜未知
node-not-ready = 对调度器未就绪
node-spare = 留作备用
node-last-report = { $age }前上报
node-no-report = 尚未上报
node-silent = 它失联了：不对其 GPU 作任何判断。
node-state = 状态
node-held-by = 占用者
node-held-by-nobody = 无
node-no-use-to = 用不上者
job-unknown = 现在没有名为 { $job } 的作业，可能已结束。
job-none = 无
job-runs = 运行在 { $racks }、{ $nodes } 的 { $gpus } 上。
job-waiting = 等待
job-starting = 启动中
job-running = 运行中
job-stopping = 停止中
job-suspended = 已挂起
job-failed = 失败
job-finished = 已结束
job-fact-state = 状态
job-fact-size = 大小
job-fact-queue = 队列
job-fact-priority = 优先级
job-fact-checkpoint = 上次检查点
job-fact-lost = 至今损失
job-fact-recommended = 建议
job-hit = 影响它的问题
job-ranks = 各 rank 随时间
job-nodes = 所在节点（按 rank）
job-elsewhere = 还能在哪里运行
why-slow = 若慢，为什么
why-waits = 为什么没有运行
cause-scheduling = 调度
cause-network = 网络
cause-hardware = 硬件
cause-host = 主机
cause-code = 作业自身代码
cause-not-running = 没有运行：无从读取。
cause-network-unread = 未知：尚未判断网络迹象。
cause-host-unread = 未知：未读取主机的 CPU、内存和存储。
cause-blind = 未知：部分节点失联。
cause-hardware-none = 已排除：没有 GPU 有故障、过热或被限频。
cause-code-none = 没有迹象：GPU 不空闲也不挂起。
cause-code-other = 没有迹象：所见可由硬件解释。
cause-spread = 分散在 { $racks }；{ $fewest } 个就够。
cause-together = 已排除：在 { $racks } 中运行；少于 { $fewest } 个放不下。
heat-metric = 着色
heat-activity_ratio = SM 活跃度
heat-sm_clock_hertz = SM 频率
heat-power_watts = 功率
heat-temperature_celsius = 温度
heat-memory_used_bytes = 已用显存
heat-dram_active_ratio = 显存带宽占用
heat-nvlink_bytes_per_second = NVLink 流量
heat-pcie_bytes_per_second = PCIe 流量
heat-label = { $rows } 个 rank 的{ $what }随时间变化。{ $suspect }
heat-nobody = 没有突出的 rank。
heat-nothing = 这段时间没有保留它的 rank 数据。
heat-unknown = 未知
heat-table = 以表格显示
heat-col-rank = rank
heat-col-where = GPU
heat-col-mean = 均值
heat-col-median = 与中位数之比
heat-to-median = 中位数的 { $ratio } 倍
queue-name = 队列 { $queue }
queue-unknown = 现在没有名为 { $queue } 的队列。
queue-quota = 配额 { $quota } 块 GPU，已用 { $used } 块
queue-no-quota = 已用 { $used } 块 GPU；配额未知
queue-asked = 另有 { $gpus } 块在排队
queue-cohort = 在 cohort { $cohort } 内互借
queue-held = { $who } 让它暂停接纳
queue-waiting = 谁在等
queue-running = 谁在运行
queue-nobody-waits = 没有等待者。
queue-nobody-runs = 没有运行者。
queue-jobs = 作业

## The page: the scrubber
scrubber-label = 时间
scrubber-slider = 显示的时刻；PageUp 和 PageDown 在标记间移动，End 回到现在
scrubber-span = 时间跨度
scrubber-span-86400 = 一天
scrubber-span-604800 = 一周
scrubber-now = 现在
scrubber-asking = 正在取过去的数据。
scrubber-marks = 打开 { $findings } 个问题，命令变更 { $commands } 次
past-asking = 正在查询 { $at } 的状态。
past-shown = 这是过去：{ $at }。这里不能作决定。
past-means = 每个数字是 { $span }的均值。
past-back = 回到现在

## End of the page
