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
