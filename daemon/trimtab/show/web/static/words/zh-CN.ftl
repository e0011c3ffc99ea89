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
